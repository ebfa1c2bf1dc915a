// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// rolledOut is the report of a set whose template describes revision 2, which has the number 3.
func rolledOut(phase v1alpha1.Phase) *PolicyReport {
	status := v1alpha1.SetStatus{Name: "agent", Enforcement: v1alpha1.EnforcementFull, Phase: phase, TargetRevision: "agent-2", TargetNumber: 3, CommittedRevision: "agent-1"}
	if phase == v1alpha1.PhaseComplete {
		status.CommittedRevision = "agent-2"
	}
	return &PolicyReport{Name: "agents", Reported: true, SetStatus: status, now: status}
}

// TestEndInEachPhase: nodes that are up to date end a rollout in the phase Complete only.
func TestEndInEachPhase(t *testing.T) {
	for _, phase := range v1alpha1.Phases() {
		want := Rolling
		switch phase {
		case v1alpha1.PhaseComplete:
			want = Finished
		case v1alpha1.PhaseFailed, v1alpha1.PhaseRejected:
			want = Failed
		}
		if got := rolledOut(phase).end(Outcome{State: Finished}); got.State != want {
			t.Errorf("%s, nodes up to date: %s (%s), want %s", phase, got.State, got.Why, want)
		}
		if want == Finished {
			want = Rolling
		}
		if got := rolledOut(phase).end(Outcome{State: Rolling}); got.State != want {
			t.Errorf("%s, nodes to update: %s (%s), want %s", phase, got.State, got.Why, want)
		}
	}
}

// TestEndOfExactlyThisRollout: what the manager has stored counts for the revision that the set has now, and for no other. What no manager has reported ends nothing. A policy that controls
// nothing of the set changes nothing, and neither does a set that is refused.
func TestEndOfExactlyThisRollout(t *testing.T) {
	change := func(phase v1alpha1.Phase, edit func(*PolicyReport)) *PolicyReport {
		r := rolledOut(phase)
		edit(r)
		return r
	}
	complete := v1alpha1.PhaseComplete
	for name, c := range map[string]struct {
		policy      *PolicyReport
		nodes, want State
	}{
		"no policy":            {nil, Finished, Finished},
		"not reported":         {change(complete, func(r *PolicyReport) { r.Reported = false }), Finished, Rolling},
		"rejected, unreported": {change(v1alpha1.PhaseRejected, func(r *PolicyReport) { r.Reported = false }), Rolling, Rolling},
		"another revision":     {change(complete, func(r *PolicyReport) { r.now.TargetRevision = "agent-4" }), Finished, Rolling},
		"an earlier rollout":   {change(complete, func(r *PolicyReport) { r.now.TargetNumber = 5 }), Finished, Rolling},
		"not known yet":        {change(complete, func(r *PolicyReport) { r.now = v1alpha1.SetStatus{} }), Finished, Rolling},
		"not committed":        {change(complete, func(r *PolicyReport) { r.CommittedRevision = "agent-1" }), Finished, Rolling},
		"retried":              {change(v1alpha1.PhaseFailed, func(r *PolicyReport) { r.now.Phase = v1alpha1.PhaseRolling }), Rolling, Rolling},
		"retried, nodes done":  {change(v1alpha1.PhaseFailed, func(r *PolicyReport) { r.now.Phase = v1alpha1.PhaseRolling }), Finished, Rolling},
		"it controls nothing":  {change(v1alpha1.PhaseStalled, func(r *PolicyReport) { r.Enforcement = v1alpha1.EnforcementNone }), Finished, Finished},
		"another controller":   {change(v1alpha1.PhaseRejected, func(r *PolicyReport) { r.Enforcement = v1alpha1.EnforcementOnDelete }), Rolling, Failed},
		"the set is refused":   {rolledOut(v1alpha1.PhaseRolling), Failed, Failed},
		"it decides otherwise": {change(complete, func(r *PolicyReport) { r.now.Phase = v1alpha1.PhaseStalled }), Finished, Finished},
	} {
		if got := c.policy.end(Outcome{State: c.nodes}); got.State != c.want {
			t.Errorf("%s: %s (%s), want %s", name, got.State, got.Why, c.want)
		}
	}
}
