// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
	"everynode.dev/everynode/internal/testing/fakecluster"
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

// TestAnUndoKeepsTheBudget: the plan says how many nodes are without a pod at once, and not how many have been one after the other.
func TestAnUndoKeepsTheBudget(t *testing.T) {
	objects := fakecluster.Roll{Name: "agent", Advanced: true, Letters: strings.Repeat("u", 30)}.Objects(t)
	objects = append(objects, fakecluster.Object(t, policyOf("  waves: [{name: canary, nodes: {count: 3}, soak: 2s}, {name: most, nodes: {count: 12}}]\n  failure: {action: Undo}\n")))
	d := documentOf(t, newServer(t, objects...), "ads/agent --image agent=registry.example/agent:3 --local --max-unavailable 3 --what-if failed=node-12")
	if d.WhatIf.Back == "" || len(d.WhatIf.Reached) < 10 || d.Budget.MostDown != 3 || d.Budget.Limit != 3 {
		t.Errorf("at most %d nodes are without a pod, with a limit of %d; %d nodes are reached, and are back after %q", d.Budget.MostDown, d.Budget.Limit, len(d.WhatIf.Reached), d.WhatIf.Back)
	}
}
