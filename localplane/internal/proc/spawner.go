// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Command says what to start.
type Command struct {
	Path string
	Args []string
	// Env is the whole environment; nil means the supervisor's own.
	Env []string
	// Output takes what the process writes to standard output and standard error.
	Output io.Writer
}

// Spawner starts processes that end with the process that started them.
//
// The kernel ties that promise (PR_SET_PDEATHSIG) to the thread that forked, not to the process: a thread that the Go
// runtime retires would take its children along. So one goroutine, bound to its thread for good, does all the forking.
type Spawner struct {
	requests chan spawnRequest
}

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan error
}

// NewSpawner starts the forking goroutine. Close it only when its processes have ended.
func NewSpawner() *Spawner {
	s := &Spawner{requests: make(chan spawnRequest)}
	go s.run()
	return s
}

func (s *Spawner) run() {
	// Never unlocked: the thread is this goroutine's for as long as it runs.
	runtime.LockOSThread()
	for r := range s.requests {
		r.done <- r.cmd.Start()
	}
}

// Close ends the forking goroutine.
func (s *Spawner) Close() { close(s.requests) }

// Start starts a process in a process group of its own.
func (s *Spawner) Start(c Command) (*Process, error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = c.Env
	cmd.Stdout, cmd.Stderr = c.Output, c.Output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	r := spawnRequest{cmd: cmd, done: make(chan error, 1)}
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
	p := &Process{Identity: id, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Process is a started process.
type Process struct {
	Identity
	done chan struct{}
	err  error
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

// Kill ends the process group with SIGKILL and waits for the process.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}
