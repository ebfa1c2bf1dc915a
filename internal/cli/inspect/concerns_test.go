// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/policy"
)

// TestConcerns: a warning about a rollout is shown while the policy reports what it is about, and for the revision that it names.
func TestConcerns(t *testing.T) {
	report := func(phase v1alpha1.Phase) *inspect.PolicyReport {
		return &inspect.PolicyReport{SetStatus: v1alpha1.SetStatus{Phase: phase, TargetRevision: "agent-7f"}}
	}
	const text = "The wave canary of revision agent-7f is complete: to continue, run kubectl everynode approve ads/agent -n default, or create a RolloutApproval."
	const conflict = "More than one policy applies to the daemon set: a, b. Change their targets so that one remains."
	stalled := report(v1alpha1.PhaseStalled)
	stalled.Blocking = []v1alpha1.Blocking{{Reason: "Conflict", Message: conflict}}
	failed := report(v1alpha1.PhaseFailed)
	failed.Failure = &v1alpha1.RolloutFailure{Wave: "canary"}
	analysed := report(v1alpha1.PhaseSoaking)
	analysed.Analyses = []v1alpha1.AnalysisStatus{{Name: "errors", Wave: "canary", Answer: v1alpha1.AnswerFail}}
	analysed.Alerts = &v1alpha1.AlertsStatus{Answer: v1alpha1.AnswerUnknown}
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
		{nil, policy.ReasonRolloutStalled, conflict, false},
		{nil, policy.ReasonTemplateReverted, "Changed the template back to that of revision agent-6.", true},
		{nil, "FailedCreate", "quota", true},
		{report(v1alpha1.PhaseStalled), "FailedCreate", "quota", true},
		{stalled, policy.ReasonRolloutStalled, conflict, true},
		{stalled, policy.ReasonRolloutStalled, "The policy cannot be followed: spec.waves[0] is wrong.", false},
		{report(v1alpha1.PhaseRolling), policy.ReasonRolloutStalled, conflict, false},
		{failed, policy.ReasonRolloutFailed, "Revision agent-7f has failed: no further node gets it.", true},
		{failed, policy.ReasonRolloutFailed, "Revision agent-6 has failed: no further node gets it.", false},
		{report(v1alpha1.PhaseRolling), policy.ReasonRolloutFailed, "Revision agent-7f has failed: no further node gets it.", false},
		{failed, policy.ReasonRolloutUndone, "Revision agent-7f has failed: nodes return to the committed revision agent-6.", true},
		{report(v1alpha1.PhaseUndoing), policy.ReasonRolloutUndone, "The template describes the committed revision agent-7f again.", true},
		{report(v1alpha1.PhaseComplete), policy.ReasonRolloutUndone, "The template describes the committed revision agent-7f again.", false},
		{failed, policy.ReasonRolloutUndoFailed, "The undo has stopped.", false},
		{report(v1alpha1.PhaseRejected), policy.ReasonRolloutRejected, "Revision agent-7f was rejected by jane: no further node gets it.", true},
		{report(v1alpha1.PhaseRolling), policy.ReasonRolloutRejected, "Revision agent-7f was rejected by jane: no further node gets it.", false},
		{report(v1alpha1.PhaseRolling), policy.ReasonSoakRestarted, "The pod of the wave canary of revision agent-7f on node a was not ready for a moment: the soak starts again.", true},
		{report(v1alpha1.PhaseRolling), policy.ReasonSoakRestarted, "The pod of the wave canary of revision agent-6 on node a was not ready for a moment: the soak starts again.", false},
		{report(v1alpha1.PhaseComplete), policy.ReasonSoakRestarted, "The pod of the wave canary of revision agent-7f on node a was not ready for a moment: the soak starts again.", false},
		{analysed, policy.ReasonAnalysisFailed, "The analysis errors of wave canary fails. 1 is too much.", true},
		{analysed, policy.ReasonAnalysisUnknown, "The analysis errors of wave canary has no answer.", false},
		{analysed, policy.ReasonAnalysisUnknown, "No update to revision agent-7f starts, because it is not known whether alerts are firing.", true},
		{analysed, policy.ReasonAlertsFiring, "No update to revision agent-7f starts. Alerts are firing.", false},
	} {
		if got := c.of.Concerns(&inspect.Warning{Reason: c.reason, Message: c.message}); got != c.want {
			t.Errorf("%s: %s in %+v: %t", c.reason, c.message, c.of, got)
		}
	}
}
