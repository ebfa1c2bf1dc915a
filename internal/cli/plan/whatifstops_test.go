// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestAnUndoThatStopsHasNotEnded: the phase Failed is the end of an undo only if the undo has not stopped.
func TestAnUndoThatStopsHasNotEnded(t *testing.T) {
	for reason, want := range map[string]rollout.Time{"Failed": 5, "UndoFailed": 0} {
		g := &governor{
			failure: &v1alpha1.RolloutFailure{}, undone: true, reached: map[string]bool{},
			last: &v1alpha1.SetStatus{Phase: v1alpha1.PhaseFailed, Failure: &v1alpha1.RolloutFailure{}, Blocking: []v1alpha1.Blocking{{Reason: reason, Message: "It has stopped."}}},
		}
		if g.seeFailure(&rollout.Snapshot{Now: 5}); g.back != want {
			t.Errorf("%s: the nodes are back at %d, want %d", reason, g.back, want)
		}
	}
}
