// SPDX-License-Identifier: Apache-2.0

package planetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMistakes runs `up` in ways that cannot work: it says why in one sentence, and leaves nothing running.
func TestMistakes(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// The subtests run after this function has returned.
	t.Cleanup(func() { _ = l.Close() })
	_, busy, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		shell string
		args  string
		code  int
		says  []string
	}{
		{"too few file handles", "ulimit -n 300; ", "--dialects none", 1, []string{"file handles", "`ulimit -n 1025` before starting", "--ulimit nofile=1025"}},
		{"port in use", "", "--dialects none --api-port " + busy, 1, []string{busy, "--api-port"}},
		{"manager is missing", "", "--manager-binary /nowhere/everynode-manager", 1, []string{"/nowhere/everynode-manager", "make build"}},
		{"unknown dialect", "", "--dialects klingon", 2, []string{"klingon", "native, kruise, openyurt, policy, or none"}},
		{"directory cannot be used", "", "--dialects none --dir /proc/1/plane", 1, []string{"/proc/1/plane", "--dir"}},
		{"foreign directory", "", "--dialects none --fresh --dir /etc", 1, []string{"/etc", "--dir"}},
		{"manager ends at once", "", "--nodes 0 --manager-binary /bin/ls", 1, []string{"manager ended before it was ready", "unrecognized option"}},
		{"no programs for real nodes", "export PATH=/nowhere; ", "--dialects none --real-nodes 1", 1, []string{
			"real nodes need what is missing here:\n", "\n  - containerd: apt-get install containerd\n", "\n  - mount: apt-get install mount",
		}},
		{"a containerd that is none", "", "--dialects none --real-nodes 1 --containerd /bin/cat", 1, []string{
			"a containerd of version 1.6 or later, or 2: apt-get install containerd, or name another one with --containerd PATH", `no version of containerd is "cat`,
		}},
		{"too many real nodes", "", "--dialects none --real-nodes 1000", 2, []string{"--real-nodes is 1000"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "plane")
			line := fmt.Sprintf("%sexec %s --dir %s up %s", tc.shell, program(t), dir, tc.args)
			if strings.Contains(tc.args, "--dir") {
				line = fmt.Sprintf("%sexec %s up %s", tc.shell, program(t), tc.args)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, "/bin/sh", "-c", line).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != tc.code {
				t.Errorf("%v, want exit code %d", err, tc.code)
			}
			for _, word := range tc.says {
				if !strings.Contains(string(out), word) {
					t.Errorf("%q is not in the output:\n%s", word, out)
				}
			}
			nothingRuns(t, dir)
		})
	}
}
