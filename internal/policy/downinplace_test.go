// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// A node that goes down soon after a change in place counts, as one that goes down soon after it got a new pod does: the time of the change counts, and not that at which the pod was created.
func TestANodeThatGoesDownAfterAChangeInPlace(t *testing.T) {
	for name, c := range map[string]struct {
		had   time.Duration
		next  bool // another manager sees the node go down
		fails bool
	}{
		"soon":               {time.Minute, false, true},
		"long after":         {6 * time.Minute, false, false},
		"a manager of later": {time.Minute, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := inPlace(t, strings.Replace(judgedStrictly(), "soak: 1m", "soak: 2h", 1))
			w.pass(time.Second)
			for _, name := range []string{"a", "b", "c"} {
				w.edit(name, 1, true)
			}
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseSoaking, "canary")
			w.pass(c.had)
			w.fails("a", hangs)
			w.node("a").Ready, w.node("a").Since = false, w.s.Now
			if c.next {
				w.lead()
			}
			w.pass(time.Second)
			w.pass(5 * time.Minute)
			if failed := w.last.Failure != nil; failed != c.fails {
				t.Errorf("failure %+v after %+v", w.last.Failure, w.last.Waves[0])
			}
		})
	}
}
