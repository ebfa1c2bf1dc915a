// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"slices"
	"strings"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// Concerns reports whether a warning is still about what the policy reports: an event lives for an hour, also if the policy was corrected or the revision has changed since.
func (r *PolicyReport) Concerns(w *Warning) bool {
	if !slices.Contains(policy.Reasons(), w.Reason) || w.Reason == policy.ReasonTemplateReverted { // that is a fact, whatever has followed
		return true
	}
	if r == nil {
		return false
	}
	about := strings.Contains(w.Message, " "+r.TargetRevision+" ") || strings.Contains(w.Message, " "+r.TargetRevision+":")
	switch w.Reason {
	case policy.ReasonApprovalNeeded, policy.ReasonApprovalMissing:
		return about && r.Phase == v1alpha1.PhaseWaitingForApproval
	case policy.ReasonRolloutStalled:
		return r.Phase == v1alpha1.PhaseStalled && r.blocks(w.Message)
	case policy.ReasonRolloutUndoFailed:
		return r.blocks(w.Message)
	case policy.ReasonRolloutFailed:
		return about && r.Failure != nil
	case policy.ReasonRolloutUndone:
		return r.Phase == v1alpha1.PhaseUndoing || about && r.Failure != nil
	case policy.ReasonRolloutRejected:
		return about && r.Phase == v1alpha1.PhaseRejected
	case policy.ReasonSoakRestarted:
		return about && !r.Phase.Ended()
	case policy.ReasonAnalysisFailed, policy.ReasonAnalysisUnknown, policy.ReasonAlertsFiring:
		return r.measures(w)
	default:
		return about
	}
}

// blocks reports whether a message is still among the reasons why nothing starts.
func (r *PolicyReport) blocks(message string) bool {
	return slices.ContainsFunc(r.Blocking, func(b v1alpha1.Blocking) bool { return b.Message == message })
}

// measures reports whether an analysis, or the question about alerts, still has the answer that a warning reports.
func (r *PolicyReport) measures(w *Warning) bool {
	answer := v1alpha1.AnswerFail
	if w.Reason == policy.ReasonAnalysisUnknown {
		answer = v1alpha1.AnswerUnknown
	}
	name, isAnalysis := strings.CutPrefix(w.Message, "The analysis ")
	if !isAnalysis {
		return r.Alerts != nil && r.Alerts.Answer == answer
	}
	return slices.ContainsFunc(r.Analyses, func(a v1alpha1.AnalysisStatus) bool {
		return a.Answer == answer && strings.HasPrefix(name, a.Name+" of wave "+a.Wave+" ")
	})
}
