// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// TestProbesAreQuiet shows that only the logger of the probes is quieter, and that its messages can still be had.
func TestProbesAreQuiet(t *testing.T) {
	for verbosity, want := range map[int]string{0: "other failed", 1: "probe failed, other failed"} {
		var got []string
		l := quietProbes(funcr.New(func(_, args string) { got = append(got, args) }, funcr.Options{Verbosity: verbosity}))
		l.WithName("controller-runtime").WithName("healthz").Info("probe failed")
		l.WithName("controller-runtime").WithName("webhook").Info("other failed")
		words := strings.Join(got, ", ")
		for _, message := range strings.Split(want, ", ") {
			if !strings.Contains(words, message) {
				t.Errorf("at level %d %q is missing in %s", verbosity, message, words)
			}
		}
		if len(got) != len(strings.Split(want, ", ")) {
			t.Errorf("at level %d: %s", verbosity, words)
		}
	}
}

// TestLinesNameTheirFile shows that the sinks between a logger and its output do not hide who logs.
func TestLinesNameTheirFile(t *testing.T) {
	var got []string
	bare := funcr.New(func(_, args string) { got = append(got, args) }, funcr.Options{LogCaller: funcr.All})
	through := func(l logr.Logger) { l.WithCallDepth(1).Info("x") }
	for _, l := range []logr.Logger{bare, quietProbes(bare)} {
		l.WithName("a").Info("x")
		through(l.WithName("a"))
	}
	if len(got) != 4 || got[0] == got[1] || got[0] != got[2] || got[1] != got[3] || !strings.Contains(got[0], "probes_test.go") {
		t.Errorf("got %q", got)
	}
}
