// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestSeniorityInARollback: nodes that there were when the rollout began come in the order of their names, also if the revision is older than all of them. One that joins during the rollout comes last.
func TestSeniorityInARollback(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 1h}, {name: half, nodes: {percent: 50}, soak: 1h}]\njoiningNodes: Stable")
	w.outdates()
	for i := range w.s.Nodes {
		w.s.Nodes[i].Joined = w.s.Nodes[i].Joined.Add(-time.Duration(i) * time.Minute) // j is the oldest node
	}
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.join("aa", w.s.Now.Add(time.Second), 0)
	w.pass(2 * time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(time.Hour)
	w.want("cdef", v1alpha1.PhaseRolling, "half")
}
