// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestEndUnderAPolicy: nodes that are up to date do not end a rollout before its last wave has passed, and what has failed or was rejected does not go on by itself, unless a user has retried it since. What no manager
// has reported, and a policy that controls nothing of the set, change nothing.
func TestEndUnderAPolicy(t *testing.T) {
	report := func(phase v1alpha1.Phase, enforcement v1alpha1.Enforcement, reported bool) *PolicyReport {
		return &PolicyReport{Name: "agents", Reported: reported, SetStatus: v1alpha1.SetStatus{Name: "agent", Phase: phase, Enforcement: enforcement}}
	}
	full := v1alpha1.EnforcementFull
	retried := report(v1alpha1.PhaseFailed, full, true)
	retried.now = v1alpha1.PhaseRolling
	for _, c := range []struct {
		policy *PolicyReport
		nodes  State
		want   State
	}{
		{nil, Finished, Finished},
		{report(v1alpha1.PhaseComplete, full, true), Finished, Finished},
		{report(v1alpha1.PhaseSoaking, full, true), Finished, Rolling},
		{report(v1alpha1.PhaseWaitingForApproval, full, true), Finished, Rolling},
		{report(v1alpha1.PhaseUndoing, full, true), Rolling, Rolling},
		{report(v1alpha1.PhaseFailed, full, true), Rolling, Failed},
		{retried, Rolling, Rolling},
		{report(v1alpha1.PhaseRejected, v1alpha1.EnforcementOnDelete, true), Rolling, Failed},
		{report(v1alpha1.PhaseRejected, full, false), Rolling, Rolling},
		{report(v1alpha1.PhaseSoaking, v1alpha1.EnforcementNone, true), Finished, Finished},
		{report(v1alpha1.PhaseRejected, full, true), Finished, Finished},
	} {
		if got := c.policy.end(Outcome{State: c.nodes}); got.State != c.want {
			t.Errorf("%+v, nodes %s: %s, want %s", c.policy, c.nodes, got.State, c.want)
		}
	}
}
