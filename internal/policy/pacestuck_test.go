// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestNodesThatUseUpThePaceAreNamed: a node of a wave that has passed stops being ready, or its pod stops working, and uses up maxUpgrading. The active wave starts nothing, and waits for no node of its own: blocking names
// that node. The same holds for nodes that return to the committed revision.
func TestNodesThatUseUpThePaceAreNamed(t *testing.T) {
	const tail = "because the node is not ready or its pod does not become available: a. Remove the reason, or raise spec.pace.maxUpgrading."
	const want = "No other update starts: spec.pace.maxUpgrading allows 1 at once, and the update has not ended on 1 node, " + tail
	for _, returns := range []bool{false, true} {
		for name, wait := range map[string]time.Duration{"the node is not ready": time.Second, "the pod does not work": 11 * time.Minute} {
			w := newWorld(t, "pace: {maxUpgrading: 1}\nwaves: [{name: canary, nodes: {count: 2}}]")
			for range 4 {
				w.pass(time.Second)
				w.roll()
			}
			w.put("c", 1, true)
			w.put("a", 1, false)
			if returns {
				w.s.Set.Update, w.s.Revisions[0].Number = 0, 3
				w.put("a", 0, false)
			}
			if wait < time.Minute {
				w.node("a").Ready, w.node("a").Since = false, w.s.Now
			}
			w.pass(time.Second)
			w.pass(wait)
			phase := v1alpha1.PhaseRolling
			if returns {
				phase = v1alpha1.PhaseUndoing
			}
			if got := w.roll(); got != "" || w.last.Phase != phase || w.whyBlocked("Pace") != want {
				t.Errorf("%s, returns %t: rolls %q in phase %s, blocking %+v", name, returns, got, w.last.Phase, w.last.Blocking)
			}
		}
	}
}
