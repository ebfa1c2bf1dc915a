// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"context"
	"io"
	"os"
	"os/exec"
	"time"
)

// Interactive is an interactive command: it stays in the process group of the terminal.
type Interactive struct {
	Argv     []string
	In       io.Reader
	Out, Err io.Writer
}

// RunWithin runs a command in the namespaces of a process and waits for it. The command ends when ctx ends. An
// *exec.ExitError is an error of the command.
func RunWithin(ctx context.Context, pid int, c Interactive) error {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.In, c.Out, c.Err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interactiveGrace
	cmd.Dir = "/" // the working directory of this program may not exist there
	if err := Within(pid, cmd.Start); err != nil {
		return err
	}
	return cmd.Wait()
}

// interactiveGrace is how long a command may take to end after an interrupt.
const interactiveGrace = 2 * time.Second
