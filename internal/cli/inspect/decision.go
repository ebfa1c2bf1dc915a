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

// decisions returns those that the waves name, and the rejections.
func (r *PolicyReport) decisions(approvals []v1alpha1.RolloutApproval) (all []Decision) {
	for i := range approvals {
		a := &approvals[i]
		at := slices.IndexFunc(r.Waves, func(w v1alpha1.WaveStatus) bool { return w.Approval == a.Name })
		if at < 0 && !slices.Contains(r.rejections, a.Name) {
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

func (d *Decision) line() string {
	text, by := "the revision was rejected", d.By
	switch d.Decision {
	case v1alpha1.Approve:
		text = "wave " + d.Wave + " was approved"
	case v1alpha1.Promote:
		text = "the soak of wave " + d.Wave + " was ended"
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
