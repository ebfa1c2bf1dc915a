// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// pluginTimeout is how long a plugin may take, as for the kubelet. Its children get pluginGrace to close what they inherited.
const (
	pluginTimeout = time.Minute
	pluginGrace   = 2 * time.Second
)

// longestError is how much of what a plugin complains about is told.
const longestError = 500

// runner returns a function that runs the program with a request on its standard input, and returns its standard output. The
// environment is that of the agent, with what the configuration adds.
func runner(program string, c providerConfig) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, pluginTimeout)
		defer cancel()
		var stdout bytes.Buffer
		var stderr head
		command := exec.CommandContext(ctx, program, c.Args...)
		command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(request), &stdout, &stderr
		command.WaitDelay = pluginGrace
		command.Env = os.Environ()
		for _, v := range c.Env {
			command.Env = append(command.Env, v.Name+"="+v.Value)
		}
		if err := command.Run(); err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			said := c.discreet(strings.TrimSpace(string(stderr)))
			return nil, fmt.Errorf("running %s: %w: %s", program, err, said[:min(len(said), longestError)])
		}
		return stdout.Bytes(), nil
	}
}

// head is the beginning of what is written to it: a byte more than is told, by which it shows that there was more.
type head []byte

func (h *head) Write(p []byte) (int, error) {
	*h = append(*h, p[:min(len(p), longestText+1-len(*h))]...)
	return len(p), nil
}

// secretNames are parts of the names of variables that hold secrets.
var secretNames = regexp.MustCompile(`(?i)passw|secret|token|key|credential`)

// discreet is what the program said, without what its configuration and the environment tell it in secret.
func (p *providerConfig) discreet(said string) string {
	var secrets []string
	for _, v := range p.Env {
		if secretNames.MatchString(v.Name) {
			secrets = append(secrets, v.Value)
		}
	}
	for _, v := range os.Environ() {
		if name, value, _ := strings.Cut(v, "="); secretNames.MatchString(name) {
			secrets = append(secrets, value)
		}
	}
	return discreet(said, secrets)
}
