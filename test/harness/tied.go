// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os/exec"
	"runtime"
	"syscall"
)

// tied is a process that ends with the one that started it, however that ends: a test that panics, times out or is killed
// runs no Cleanup, and must not leave a controller behind.
type tied struct {
	command *exec.Cmd
	ended   chan struct{}
}

// startTied starts the command as a tied process.
//
// The kernel ties that promise (PR_SET_PDEATHSIG) to the thread that forked. So a goroutine that keeps its thread forks,
// and stays until the process has ended.
func startTied(command *exec.Cmd) (*tied, error) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	process := &tied{command: command, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(process.ended)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // "signal: killed"
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return process, nil
}

// kill ends the process with SIGKILL and returns once it is gone.
func (p *tied) kill() {
	_ = p.command.Process.Kill() // fails only when it has ended by itself
	<-p.ended
}
