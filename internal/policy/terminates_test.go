// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestAnOldPodThatTerminates: a node whose old pod terminates is not stuck before that takes long. Before the change, the age of the pod counted, so each update of a pod older than ten minutes had a reason in blocking why nothing else
// starts, and asked users to remove it.
func TestAnOldPodThatTerminates(t *testing.T) {
	for name, c := range map[string]struct {
		spec, reason string
		phase        v1alpha1.Phase
		back         bool
	}{
		"a rollout with a pace":   {"pace: {maxUpgrading: 1}", "Pace", v1alpha1.PhaseRolling, false},
		"an undo by the template": {"{}", "Budget", v1alpha1.PhaseUndoing, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.spec)
			w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
			w.pass(0)
			if c.back {
				for _, name := range []string{"a", "b", "c"} {
					w.put(name, 1, true)
				}
				w.s.Set.Update = 0
			}
			for i := range w.s.Nodes {
				w.s.Nodes[i].Pods[0].Created, w.s.Nodes[i].Pods[0].ReadySince = 1, 1
			}
			n := w.node("a")
			n.Pods[0].Deleting, n.Pods[0].DeletedAt, n.Last = true, w.s.Now, w.s.Set.Update
			for range 3 {
				w.pass(time.Minute)
				if w.last.Phase != c.phase || len(w.last.Blocking) > 0 {
					t.Fatal(w.last.Phase, w.last.Blocking)
				}
			}
			w.pass(10 * time.Minute)
			if b := w.last.Blocking; len(b) != 1 || b[0].Reason != c.reason {
				t.Error(b)
			}
		})
	}
}
