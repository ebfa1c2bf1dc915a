// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"strings"
	"testing"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

// On a terminal what goes and what comes have their colours, unless somebody wants none.
func TestDiffOnATerminal(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"usual":    {nil, "\x1b[31m-    image: registry.example/agent:1\x1b[0m\r\n\x1b[32m+    image: registry.example/agent:2\x1b[0m\r\n"},
		"NO_COLOR": {map[string]string{"NO_COLOR": "1"}, "-    image: registry.example/agent:1\r\n+    image: registry.example/agent:2\r\n"},
		"dumb":     {map[string]string{"TERM": "dumb"}, "-    image: registry.example/agent:1\r\n+    image: registry.example/agent:2\r\n"},
	} {
		reader, terminal := fakecluster.OpenTerminal(t, 80, 24)
		cluster := fakecluster.New(t, roll(false).Objects(t)...)
		cluster.Env, cluster.Options.Out = c.env, terminal
		if err := cluster.Run(t, both, "diff", "agent", "1", "2"); err != nil {
			t.Fatal(err)
		}
		var seen strings.Builder
		for buffer := make([]byte, 4096); !strings.Contains(seen.String(), "name: agent"); {
			n, err := reader.Read(buffer)
			if err != nil {
				t.Fatal(err)
			}
			seen.Write(buffer[:n])
		}
		if !strings.Contains(seen.String(), c.want) || c.env != nil && strings.Contains(seen.String(), "\x1b") {
			t.Errorf("%s: %q, want %q", name, seen.String(), c.want)
		}
	}
}
