// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestReturnThatTheBudgetHolds: the template describes the committed revision again, and nodes with it that are down use up the budget, so no node returns.
func TestReturnThatTheBudgetHolds(t *testing.T) {
	for name, down := range map[string]func(w *world, node string){
		"not ready":    func(w *world, node string) { w.node(node).Ready = false },
		"not created":  func(w *world, node string) { w.node(node).Pods, w.node(node).Blocked = nil, "the quota is used up" },
		"crashes":      func(w *world, _ string) { w.pass(20 * time.Minute) },
		"only started": nil,
	} {
		for _, known := range []bool{false, true} {
			w := newWorld(t, "waves: [{name: canary, nodes: {count: 3}, soak: 1h}]")
			w.s.Set.MaxUnavailable.Value = 2
			if known { // otherwise the status was lost
				w.pass(0)
			}
			w.put("c", 1, true)
			w.pass(time.Minute)
			w.s.Set.Update = 0
			for _, node := range []string{"a", "b"} {
				w.put(node, 0, false)
				if down != nil {
					down(w, node)
				}
			}
			w.pass(time.Minute)
			if !known {
				w.last, w.restored = nil, true
				w.pass(0)
			}
			said := ""
			for _, b := range w.out.Status.Blocking {
				said += b.Reason + ": " + b.Message
			}
			want := "Budget: No other node returns: 2 nodes have no available pod, get no other one now, and use up the budget, for maxUnavailable is 2."
			if down == nil {
				want = ""
			}
			if phase := w.out.Status.Phase; phase != v1alpha1.PhaseUndoing && phase != v1alpha1.PhaseRolling || !strings.HasPrefix(said, want) || want == "" && said != "" {
				t.Errorf("%s, known %t: phase %s, it says %q, want %q\n%s", name, known, phase, said, want, w.verdicts())
			}
		}
	}
}
