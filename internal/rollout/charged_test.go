// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

// TestChargedIsWhatADecisionCharges: what uses up the budget and the pace is the same for a policy as for the decision that follows.
func TestChargedIsWhatADecisionCharges(t *testing.T) {
	nodes, flying := 0, 0
	for i := range 4000 {
		s := randomSnapshot(i)
		d, charged, paced := begin(&s), s.Charged(), s.Paced()
		d.holdNodes()
		for k := range s.Nodes {
			before := d.usage.paced
			d.visitNode(k)
			if got := paced(k); got != (d.usage.paced > before) && s.Gate == nil {
				t.Fatalf("pace: node %d of snapshot %d: %t\n%+v", k, i, got, s.Nodes[k])
			} else if got {
				flying++
			}
			if got := charged(k); got != d.verdicts[k].Charged {
				t.Fatalf("node %d of snapshot %d: %t\n%+v", k, i, got, s.Nodes[k])
			} else if got {
				nodes++
			}
		}
	}
	if nodes == 0 || flying == 0 {
		t.Errorf("%d nodes are charged, and %d are in flight", nodes, flying)
	}
}
