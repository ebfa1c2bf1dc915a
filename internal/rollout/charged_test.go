// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

// TestChargedIsWhatADecisionCharges: what uses up the budget is the same for a policy as for the decision that follows.
func TestChargedIsWhatADecisionCharges(t *testing.T) {
	nodes := 0
	for i := range 4000 {
		s := randomSnapshot(i)
		d, charged := begin(&s), s.Charged()
		d.holdNodes()
		for k := range s.Nodes {
			d.visitNode(k)
			if got := charged(k); got != d.verdicts[k].Charged {
				t.Fatalf("node %d of snapshot %d: %t\n%+v", k, i, got, s.Nodes[k])
			} else if got {
				nodes++
			}
		}
	}
	if nodes == 0 {
		t.Error("no node is charged")
	}
}
