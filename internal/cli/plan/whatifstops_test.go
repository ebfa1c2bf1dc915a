// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
	"time"

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

// TestHoldsAfterAFailure: a revision that fails without --what-if holds the rollout; one that fails because of it, or had failed before, is shown elsewhere.
func TestHoldsAfterAFailure(t *testing.T) {
	failure, second := &v1alpha1.RolloutFailure{Message: "Wave canary failed."}, rollout.Time(time.Second)
	undone := &v1alpha1.SetStatus{Blocking: []v1alpha1.Blocking{{Reason: "Undone", Message: "Revision agent-2 was undone."}}}
	for want, f := range map[string]*prediction{
		"The revision fails after 1s. Wave canary failed.": {governor: &governor{failure: failure, failedAt: second}},
		"Revision agent-2 was undone.":                     {governor: &governor{last: undone}},
	} {
		if got := f.holds(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for name, f := range map[string]*prediction{
		"--what-if":     {governor: &governor{failure: failure, failedAt: second, last: undone}, fails: map[string]bool{"node-1": true}},
		"failed before": {governor: &governor{failure: failure, failedAt: second, begin: second}},
	} {
		if got := f.holds(); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestNothingIsKnownWithoutPolicies: without the right to read policies it is not known whether anything starts.
func TestNothingIsKnownWithoutPolicies(t *testing.T) {
	const unknown, nothing = "It is not known whether anything starts, because the rollout policies cannot be read.\n", "Nothing starts.\n"
	for _, c := range []struct {
		unread bool
		reason rollout.VerdictKind
		want   string
	}{
		{true, rollout.WaitPolicy, unknown}, {false, rollout.WaitPolicy, nothing}, {true, rollout.WaitPaused, nothing},
	} {
		var b strings.Builder
		(&screen{w: &b}).estimate(&Document{PoliciesUnread: c.unread, Nodes: []Node{{Name: "node-1", Reason: c.reason.String()}}})
		if got := b.String(); got != "\n"+c.want {
			t.Errorf("unread %t, %s: %q, want %q", c.unread, c.reason, got, c.want)
		}
	}
}
