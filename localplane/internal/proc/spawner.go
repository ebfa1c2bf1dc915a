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

// Command is a command to start.
type Command struct {
	Path string
	Args []string
	// Env is the whole environment; nil means that of the supervisor.
	Env []string
	// Output receives standard output and standard error of the process.
	Output io.Writer
	// Unshare are the CLONE_NEW… flags of the process's own namespaces.
	Unshare uintptr
	// Inside is a process in whose namespaces (mount, network, PID, UTS, IPC) the process is started; 0 means those of
	// this process. If the PID namespace differs, its first process must have been started by this Spawner: see Spawner.
	Inside int
}

// Spawner starts processes that end with the process that started them.
//
// The kernel ties this (PR_SET_PDEATHSIG) to the thread that forked, not to the process: if the Go runtime ended a
// thread, its children would end too. So one goroutine, locked to its thread, does all forking.
//
// A process in another PID namespace ends in another way: the kernel kills it together with the first process of that
// namespace, which this Spawner has started with the flag CLONE_NEWPID, and which has PR_SET_PDEATHSIG itself.
type Spawner struct {
	// KillTimeout is how long Kill waits for the end of a process, and of all others in its namespaces. Set it before
	// the first start.
	KillTimeout time.Duration

	requests chan spawnRequest
	// dir is the working directory of every process. The forking thread loses its own when it enters a mount namespace.
	dir string
}

type spawnRequest struct {
	cmd    *exec.Cmd
	inside int
	done   chan error
}

// NewSpawner starts the forking goroutine. Close it after its processes have ended.
func NewSpawner() *Spawner {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/" // the directory was removed
	}
	s := &Spawner{KillTimeout: killTimeout, requests: make(chan spawnRequest), dir: dir}
	go OwnThread(s.run)
	return s
}

// run runs on its own thread.
func (s *Spawner) run() {
	// Only a thread that does not share root and working directory with another one can enter a mount namespace.
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

// startInside starts a command in the namespaces of another process and returns from there.
func startInside(cmd *exec.Cmd, pid int) error {
	v, err := enter(pid)
	if err != nil {
		return err
	}
	if v.flags&unix.CLONE_NEWPID != 0 {
		// A process whose parent is outside of its PID namespace gets 0 as the pid of its parent. Go would take this for
		// a parent that has died, and end the process.
		cmd.SysProcAttr.Pdeathsig = 0
	}
	if _, err := os.Stat(cmd.Dir); err != nil {
		cmd.Dir = "/" // the node mounts another directory over it
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

// Start starts a process in its own process group.
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
	// The process cannot be reaped before Wait below, so its entry in /proc exists even if it has already ended.
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
	// lingering reports whether it was killed and has not ended within the timeout.
	lingering atomic.Bool
	done      chan struct{}
	err       error
}

// Done is closed when the process has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ExitReason describes how the process ended; call it after Done.
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

// Stop asks the process to end, and kills it after grace.
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

// killTimeout is generous, because SIGKILL cannot be refused.
const killTimeout = 10 * time.Second

// Kill ends the process group with SIGKILL and waits for the process, with a timeout.
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

// Lingers returns an error while a process still runs that was killed.
func (p *Process) Lingers() error {
	if !p.lingering.Load() || p.Ended() {
		return nil
	}
	return p.lingers(p.killTimeout)
}
