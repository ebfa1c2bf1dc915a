// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// pluginTimeout is the timeout of a plugin, as in the kubelet. After that, its child processes get pluginGrace to close
// their inherited files.
const (
	pluginTimeout = time.Minute
	pluginGrace   = 2 * time.Second
)

// runner returns a function that runs the program with a request on its standard input, and returns its standard
// output. It inherits the environment of the agent, and gets the variables of the configuration. The standard error of the
// program is dropped.
func runner(program string, c providerConfig) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, pluginTimeout)
		defer cancel()
		var stdout bytes.Buffer
		command := exec.CommandContext(ctx, program, c.Args...)
		command.Stdin, command.Stdout = bytes.NewReader(request), &stdout
		command.WaitDelay = pluginGrace
		command.Env = os.Environ()
		for _, v := range c.Env {
			command.Env = append(command.Env, v.Name+"="+v.Value)
		}
		if err := command.Run(); err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return nil, fmt.Errorf("running %s: %w (its error output may contain credentials, so it is not shown: run the program manually)", program, err)
		}
		return stdout.Bytes(), nil
	}
}
