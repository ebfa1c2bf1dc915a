// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command says what to start.
type Command struct {
	Path string
	Args []string
	// Env is the whole environment; nil means the supervisor's own.
	Env []string
	// Output takes what the process writes to standard output and standard error.
	Output io.Writer
	// Unshare are the CLONE_NEW… flags of the namespaces that the process gets for itself alone.
	Unshare uintptr
	// Inside is a process whose namespaces (mount, network, PID, UTS, IPC) the process is started in; 0 means those of
	// this one. If its PID namespace is another one, its first process has to be one of this Spawner: see Spawner.
	Inside int
}

// Spawner starts processes that end with the process that started them.
//
// The kernel ties that promise (PR_SET_PDEATHSIG) to the thread that forked, not to the process: a thread that the Go
// runtime retires would take its children along. So one goroutine, bound to its thread for good, does all the forking.
//
// A process inside another PID namespace keeps the promise by another way: the kernel ends it together with the first
// process of that namespace, which this Spawner has started with the flag CLONE_NEWPID, and which has the promise itself.
type Spawner struct {
	// KillTimeout is how long Kill waits for the end of a process, and of all others in its namespaces. It is set before the
	// first start.
	KillTimeout time.Duration

	requests chan spawnRequest
	// dir is the working directory of every process. The forking thread loses its own by visiting a mount namespace.
	dir string
}

type spawnRequest struct {
	cmd    *exec.Cmd
	inside int
	done   chan error
}

// NewSpawner starts the forking goroutine. Close it only when its processes have ended.
func NewSpawner() *Spawner {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/" // the directory was removed; nothing can be found in it anyway
	}
	s := &Spawner{KillTimeout: killTimeout, requests: make(chan spawnRequest), dir: dir}
	go OwnThread(s.run)
	return s
}

// run has a thread of its own.
func (s *Spawner) run() {
	// Only a thread that shares root and working directory with no other one can enter a mount namespace.
	alone := unix.Unshare(unix.CLONE_FS)
	var lost error
	for r := range s.requests {
		switch {
		case lost != nil:
			r.done <- lost
		case r.inside == 0:
			r.done <- r.cmd.Start()
		case alone != nil:
			r.done <- fmt.Errorf("giving the thread that starts processes a root directory of its own: %w", alone)
		default:
			err := startInside(r.cmd, r.inside)
			if errors.Is(err, errLost) {
				lost = err
			}
			r.done <- err
		}
	}
}

// startInside starts a command in the namespaces of another process and comes back from there.
func startInside(cmd *exec.Cmd, pid int) error {
	v, err := enter(pid)
	if err != nil {
		return err
	}
	if v.flags&unix.CLONE_NEWPID != 0 {
		// A process whose parent is not in its PID namespace sees 0 for it. Go takes that for a parent that has died
		// in the meantime, and lets the process end itself before it is anything.
		cmd.SysProcAttr.Pdeathsig = 0
	}
	if _, err := os.Stat(cmd.Dir); err != nil {
		cmd.Dir = "/" // the node has another directory over it
	}
	started, back := cmd.Start(), v.leave()
	if started == nil && back != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return errors.Join(started, back)
}

// Close ends the forking goroutine.
func (s *Spawner) Close() { close(s.requests) }

// Start starts a process in a process group of its own.
func (s *Spawner) Start(c Command) (*Process, error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env, cmd.Dir = c.Env, s.dir
	cmd.Stdout, cmd.Stderr = c.Output, c.Output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: c.Unshare}
	r := spawnRequest{cmd: cmd, inside: c.Inside, done: make(chan error, 1)}
	s.requests <- r
	if err := <-r.done; err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Path, err)
	}
	// The process cannot be reaped before Wait below, so its entry in /proc is there even if it has ended already.
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	p := &Process{Identity: id, killTimeout: s.KillTimeout, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Process is a started process.
type Process struct {
	Identity
	killTimeout time.Duration
	// lingering is whether it was killed and had not ended in that time.
	lingering atomic.Bool
	done      chan struct{}
	err       error
}

// Done is closed when the process has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended tells whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ExitReason tells in words how the process ended; call it after Done.
func (p *Process) ExitReason() string {
	if p.err == nil {
		return "exit status 0"
	}
	return p.err.Error()
}

// Signal sends a signal to the whole process group.
func (p *Process) Signal(sig syscall.Signal) error {
	if p.Ended() {
		return nil
	}
	if err := syscall.Kill(-p.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", p.PID, err)
	}
	return nil
}

// Stop asks the process to end and, if it has not after grace, ends it.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return p.Kill()
	}
}

// killTimeout is generous: nothing can refuse to end.
const killTimeout = 10 * time.Second

// Kill ends the process group with SIGKILL and waits for the process, but not forever.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	timer := time.NewTimer(p.killTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		p.lingering.Store(true)
		return p.Lingers()
	}
}

// Lingers is an error while a process still runs that Kill could not wait for.
func (p *Process) Lingers() error {
	if !p.lingering.Load() || p.Ended() {
		return nil
	}
	return p.lingers(p.killTimeout)
}
