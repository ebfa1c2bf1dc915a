// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// opens checks that the next action is that a window opens, and when.
func (w *world) opens(at string) {
	w.t.Helper()
	if n := w.out.Status.Next; n == nil || n.Action != v1alpha1.ActionOpenWindow || n.At == nil || n.At.UTC().Format(time.RFC3339) != at {
		w.t.Errorf("the next action is %+v, want that a window opens at %s", n, at)
	}
}

// TestNodesThatComeBackWaitForAWindow: a node that was left out of a rollout does not get its revision outside of the windows when it is back. The phase shows that, and the policy
// does not count as ready.
func TestNodesThatComeBackWaitForAWindow(t *testing.T) {
	w := newWorld(t, "readyWhen: WaveHealthy\nwindows: [{schedule: '0 0 1 1 *', duration: 1s}]")
	w.s.Set.Update = 0
	w.put("a", 1, true)
	for range 2 {
		w.pass(time.Minute)
		w.want("", v1alpha1.PhaseWaitingForWindow, "")
		w.opens("2028-01-01T00:00:00Z")
		st := w.out.Status.DeepCopy()
		st.Waves = []v1alpha1.WaveStatus{{Name: "canary", Nodes: 1, Updated: 1, Available: 1, Phase: v1alpha1.WavePassed}}
		if w.policies[0].Settled(st) {
			t.Error("the policy counts as ready")
		}
	}
	w.policies[0].Windows = nil
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "")
}
