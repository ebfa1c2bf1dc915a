// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

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

func TestTold(t *testing.T) {
	var answer error
	var got []string
	check := told(func(*http.Request) error { return answer }, func(_ *http.Request, err error) { got = append(got, err.Error()) })
	for i, ready := range []bool{false, false, true, true, false, false, true, false} {
		answer = nil
		if !ready {
			answer = fmt.Errorf("failure %d", i)
		}
		if err := check(nil); !errors.Is(err, answer) {
			t.Errorf("got %v, want %v", err, answer)
		}
	}
	if want := []string{"failure 4", "failure 7"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}
