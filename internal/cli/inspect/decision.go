// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"slices"
	"strings"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// Decision is what a user has decided about the revision, as far as it counts.
type Decision struct {
	Approval string            `json:"approval"`
	Decision v1alpha1.Decision `json:"decision"`
	Wave     string            `json:"wave,omitempty"`
	By       string            `json:"by,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	// Text is all of it in a line.
	Text string `json:"text"`
}

// decisions returns those that the waves name, the rejections, and those that have ended a soak or have asked for the undo.
func (r *PolicyReport) decisions(approvals []v1alpha1.RolloutApproval) (all []Decision) {
	for i := range approvals {
		a := &approvals[i]
		at := slices.IndexFunc(r.Waves, func(w v1alpha1.WaveStatus) bool { return w.Approval == a.Name })
		if at < 0 && !slices.Contains(r.rejections, a.Name) && !r.counted(a) {
			continue
		}
		d := Decision{Approval: a.Name, Decision: a.Spec.Decision, Wave: a.Spec.Wave, By: a.Spec.By, Reason: a.Spec.Reason}
		if at >= 0 && r.Waves[at].ApprovedBy != "" {
			d.By = r.Waves[at].ApprovedBy
		}
		d.Text = d.line()
		all = append(all, d)
	}
	return all
}

// counted reports whether a decision has taken effect in the active attempt without being named by its wave: an approval replaces the name of a decision that has ended the soak of the
// same wave, and an undo is about all waves.
func (r *PolicyReport) counted(a *v1alpha1.RolloutApproval) bool {
	if a.Spec.Set != r.SetStatus.Name || a.Spec.Policy != r.Name || a.Status.State != v1alpha1.ApprovalValid || a.Status.TargetNumber != r.TargetNumber || max(a.Status.Attempt, 1) != max(r.Attempt, 1) {
		return false
	}
	switch a.Spec.Decision {
	case v1alpha1.UndoRollout:
		return r.Failure != nil && r.Failure.Action == v1alpha1.FailureUndo
	case v1alpha1.Promote:
		return slices.ContainsFunc(r.Waves, func(w v1alpha1.WaveStatus) bool {
			return w.Name == a.Spec.Wave && (w.Phase == v1alpha1.WavePassed || w.Phase == v1alpha1.WaveWaitingForApproval)
		})
	default:
		return false
	}
}

// DecisionLines are the decisions that the table of the waves does not show, and those that have a reason.
func (r *PolicyReport) DecisionLines() (lines []string) {
	for i := range r.Decisions {
		d := &r.Decisions[i]
		shown := slices.ContainsFunc(r.Waves, func(w v1alpha1.WaveStatus) bool { return w.Approval == d.Approval })
		if d.Reason != "" || !shown {
			lines = append(lines, d.Text)
		}
	}
	return lines
}

// Ended are the decisions because of which no further node gets the revision.
func (r *PolicyReport) Ended() (lines []string) {
	for i := range r.Decisions {
		if d := &r.Decisions[i]; d.Decision == v1alpha1.Reject || d.Decision == v1alpha1.UndoRollout {
			lines = append(lines, d.Text)
		}
	}
	return lines
}

func (d *Decision) line() string {
	text, by := "the revision was rejected", d.By
	switch d.Decision {
	case v1alpha1.Approve:
		text = "wave " + d.Wave + " was approved"
	case v1alpha1.Promote:
		text = "the soak of wave " + d.Wave + " was ended"
	case v1alpha1.UndoRollout:
		text = "the undo of the revision was requested"
	default:
	}
	if by == "" {
		by = "a user whom the approval does not name"
	}
	text += " by " + by + " (" + d.Approval + ")"
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

// Rejected describes who has rejected a revision of the set, and why; empty if no rejection counts. Also one counts that is about a revision of earlier.
func (g *Governance) Rejected(revision string) string {
	for i := range g.Approvals {
		a := &g.Approvals[i]
		if a.Spec.Decision != v1alpha1.Reject || a.Spec.Set != g.Set.Name || a.Spec.Revision != revision || a.DeletionTimestamp != nil || a.Status.State == v1alpha1.ApprovalVoid {
			continue
		}
		d := Decision{Approval: a.Name, Decision: a.Spec.Decision, By: a.Spec.By, Reason: a.Spec.Reason}
		return strings.TrimPrefix(d.line(), "the revision was ")
	}
	return ""
}
