// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os/exec"
	"runtime"
	"syscall"
)

// tied is a process that is killed when its parent ends: a test that panics, times out or is killed runs no Cleanup,
// and must not leave a controller behind.
type tied struct {
	command *exec.Cmd
	ended   chan struct{}
}

// startTied starts the command as a tied process.
//
// The kernel ties this (PR_SET_PDEATHSIG) to the thread that forked. So a goroutine that is locked to its thread forks,
// and waits until the process has ended.
func startTied(command *exec.Cmd) (*tied, error) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	process := &tied{command: command, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(process.ended)
		runtime.LockOSThread() // not unlocked on purpose: the thread ends with this goroutine
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

// kill kills the process and returns when it has ended.
func (p *tied) kill() {
	_ = p.command.Process.Kill() // fails only if it has already ended
	<-p.ended
}
