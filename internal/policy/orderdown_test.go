// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// TestOrderOfANodeThatIsDownWithoutItsPod: a node of zone 2 goes down after the update has taken its pod. Zone 2 is at work until it is back, also for a manager that did not begin the update there and sees no pod:
// no update starts in zone 1, where a node has joined meanwhile.
func TestOrderOfANodeThatIsDownWithoutItsPod(t *testing.T) {
	for _, taint := range []bool{false, true} {
		for _, restarts := range []bool{false, true} {
			w := newWorld(t, "waves: [{name: all, nodes: {percent: 100}}]\norder: {topologyKey: zone, domains: OneAtATime}")
			for name := range strings.SplitSeq("abcdefghij", "") {
				w.labels[name] = map[string]string{"zone": "2"}
			}
			w.labels["a"] = map[string]string{"zone": "1"}
			w.s.Set.MaxUnavailable.Value = 2
			w.pass(time.Second)
			w.roll()
			w.pass(time.Second)
			if got := w.roll(); got != "bc" {
				t.Fatalf("rolls %q: %s", got, w.verdicts())
			}
			n := w.node("b")
			n.Pods, n.Last, n.Ready, n.Since = nil, 1, false, w.s.Now
			if taint {
				n.Fit = rollout.MayStay
			}
			w.pass(time.Second)
			w.join("k", w.s.Now, 0)
			w.labels["k"] = map[string]string{"zone": "1"}
			w.pass(time.Second)
			if restarts {
				w.lead()
				w.node("b").Last = rollout.NoRevision
				w.pass(time.Second)
			}
			if got := w.verdicts(); !strings.Contains(got, "k:wait-order") {
				t.Errorf("tainted %t, another manager %t: while b of zone 2 is in the middle of its update, the verdicts are %s", taint, restarts, got)
			}
		}
	}
}
