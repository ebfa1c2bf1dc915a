// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestARolloutRightAfterTheNodesJoined: nodes that joined a moment before the rollout began had pods then, so a revision that crashes on them is not excused. Before the change, the times of the pods of the target made them look like
// the first ones where no decision had seen the node between its pods, as next to another controller: a version that never worked did not fail.
func TestARolloutRightAfterTheNodesJoined(t *testing.T) {
	for name, another := range map[string]bool{"the same manager": false, "another manager": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, judged)
			w.s.Set.ExternalController = true
			w.s.Set.Update = 0
			for i := range w.s.Nodes {
				w.s.Nodes[i].Joined = w.s.Now.Add(-3 * time.Second)
			}
			w.pass(0)
			w.pass(time.Second)
			w.s.Set.Update = 1
			w.pass(time.Second)
			w.want("abc", v1alpha1.PhaseRolling, "canary")
			w.s.Now = w.s.Now.Add(time.Second)
			for _, node := range []string{"a", "b", "c"} {
				w.put(node, 1, false) // no decision saw the node without a pod
				w.node(node).Last = 1
			}
			w.restored = another
			w.pass(time.Second)
			for _, node := range []string{"a", "b", "c"} {
				w.fails(node, pulls)
			}
			w.pass(time.Second)
			if w.want("", v1alpha1.PhaseFailed, "canary"); w.last.Failure == nil || len(w.last.NotReadyBefore) > 0 {
				t.Errorf("the failure is %+v, not ready before are %v", w.last.Failure, w.last.NotReadyBefore)
			}
		})
	}
}
