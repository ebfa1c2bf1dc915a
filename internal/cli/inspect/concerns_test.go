// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/policy"
)

// TestWarningsAboutApprovals are shown while the approval is missing, and only for the revision that waits.
func TestWarningsAboutApprovals(t *testing.T) {
	report := func(phase v1alpha1.Phase) *inspect.PolicyReport {
		return &inspect.PolicyReport{SetStatus: v1alpha1.SetStatus{Phase: phase, TargetRevision: "agent-7f"}}
	}
	const text = "The wave canary of revision agent-7f is complete: create a RolloutApproval to continue."
	for _, c := range []struct {
		of              *inspect.PolicyReport
		reason, message string
		want            bool
	}{
		{report(v1alpha1.PhaseWaitingForApproval), policy.ReasonApprovalNeeded, text, true},
		{report(v1alpha1.PhaseWaitingForApproval), policy.ReasonApprovalMissing, text, true},
		{report(v1alpha1.PhaseRolling), policy.ReasonApprovalNeeded, text, false},
		{report(v1alpha1.PhaseWaitingForApproval), policy.ReasonApprovalNeeded, "The wave canary of revision agent-7f5 is complete.", false},
		{nil, policy.ReasonApprovalNeeded, text, false},
		{nil, "FailedCreate", "quota", true},
		{report(v1alpha1.PhaseRolling), policy.ReasonRolloutStalled, text, true},
	} {
		if got := c.of.Concerns(&inspect.Warning{Reason: c.reason, Message: c.message}); got != c.want {
			t.Errorf("%s: %s in %+v: %t", c.reason, c.message, c.of, got)
		}
	}
}
