// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// concerns is whether an approval is about the set and policy of this run.
func (r *run) concerns(a *v1alpha1.RolloutApproval) bool {
	return a.Spec.Policy == r.p.Name && a.Spec.Set == r.in.Set.Name && a.DeletionTimestamp == nil
}

// counts is whether an approval counts for the rollout that is active. One that was judged before counts for that rollout alone.
func (r *run) counts(a *v1alpha1.RolloutApproval) bool {
	if !r.concerns(a) || a.Spec.Revision != r.target().Name || r.target().Name == "" {
		return false
	}
	number := r.number()
	return a.Status.State == "" || a.Status.State == v1alpha1.ApprovalValid && a.Status.TargetNumber == number
}

// decided returns the first decision of that kind about a wave; nil for none.
func (r *run) decided(decision v1alpha1.Decision, wave string) *v1alpha1.RolloutApproval {
	for i := range r.in.Approvals {
		if a := &r.in.Approvals[i]; a.Spec.Decision == decision && (wave == "" || a.Spec.Wave == wave) && r.counts(a) {
			return a
		}
	}
	return nil
}

func (r *run) approved(w *Wave) *v1alpha1.RolloutApproval {
	return r.decided(v1alpha1.Approve, w.Name)
}

// once returns a decision that has effect once: one that has no state yet.
func (r *run) once(decision v1alpha1.Decision) *v1alpha1.RolloutApproval {
	for i := range r.in.Approvals {
		if a := &r.in.Approvals[i]; a.Spec.Decision == decision && a.Status.State == "" && r.counts(a) {
			return a
		}
	}
	return nil
}

// pending is whether a decision that has effect once has not had it: the mark that it leads to, or removes, has been seen by the decision after it.
func (r *run) pending(decision v1alpha1.Decision) bool {
	switch decision {
	case v1alpha1.Retry:
		return r.out.Retry
	case v1alpha1.UndoRollout:
		return r.out.Fail != nil
	default:
		return false
	}
}

func (r *run) rejected() bool { return r.decided(v1alpha1.Reject, "") != nil }

// judge gives each approval that has no state its state: for a template that changes and returns later it does not count again.
func (r *run) judge() {
	if r.target().Name == "" {
		return
	}
	for i := range r.in.Approvals {
		a := &r.in.Approvals[i]
		if a.Status.State != "" || !r.concerns(a) {
			continue
		}
		if !slices.ContainsFunc(r.in.Revisions, func(rev Revision) bool { return rev.Name == a.Spec.Revision }) {
			continue // it may be about a set of another kind with this name
		}
		if r.counts(a) && r.pending(a.Spec.Decision) {
			continue
		}
		judged := *a.DeepCopy()
		judged.Status.State = v1alpha1.ApprovalVoid
		if r.counts(a) && !r.atRest() {
			judged.Status = v1alpha1.RolloutApprovalStatus{State: v1alpha1.ApprovalValid, TargetNumber: r.number()}
		}
		r.out.Judged = append(r.out.Judged, judged)
	}
}

// names are the names of policies.
func names(policies []*Policy) string {
	all := make([]string, 0, len(policies))
	for _, p := range policies {
		all = append(all, p.Name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// enforcement is what a policy controls of a set.
func enforcement(set *rollout.Set) v1alpha1.Enforcement {
	switch {
	case set.Strategy != rollout.RollingUpdate && set.Announce:
		return v1alpha1.EnforcementAnnouncements
	case set.Strategy != rollout.RollingUpdate: // also one that another controller rolls
		return v1alpha1.EnforcementNone
	case set.ExternalController:
		return v1alpha1.EnforcementOnDelete
	default:
		return v1alpha1.EnforcementFull
	}
}
