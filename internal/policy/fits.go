// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// The template says on which nodes the pods of a set run, and a change of that acts on all nodes at once: pods would leave them without waves, and no undo would bring them back. So while the template describes a
// revision that is not committed, nodes that only this revision excludes keep their pods until their wave, and nodes that return to the committed revision have a pod where that one may run.

// keepPods finds the nodes that only the template of the target excludes. They may keep the pod that they have, like nodes that have got a taint: no wave waits for them, and their pods are removed in the turn of their wave.
func (r *run) keepPods() {
	s := r.in.Snapshot
	governs := r.in.Unread || len(r.in.Policies) > 0 || r.anyMark
	if r.in.Fits == nil || !governs || r.atRest() || r.committed < 0 || enforcement(&s.Set) != v1alpha1.EnforcementFull {
		return
	}
	if r.fits = r.in.Fits(r.committed); len(r.fits) != len(s.Nodes) {
		r.fits = nil
		return
	}
	kept := *s
	kept.Nodes = slices.Clone(s.Nodes)
	r.targetFits, r.out.Fits = make([]rollout.Fit, len(s.Nodes)), make([]rollout.Fit, len(s.Nodes))
	for i := range kept.Nodes {
		n := &kept.Nodes[i]
		r.targetFits[i] = n.Fit
		if n.Fit == rollout.MustLeave && !n.Gone && (r.fits[i] == rollout.MustRun || r.fits[i] == rollout.MayStay) && r.hasOnlyOthers(n) {
			n.Fit = rollout.MayStay
		}
		r.out.Fits[i] = n.Fit
	}
	in := *r.in
	in.Snapshot = &kept
	r.in, r.s = &in, &kept
	for i := range kept.Nodes {
		if n := &kept.Nodes[i]; r.onlyTargetFits(i) && n.Last != r.template {
			n.Last = rollout.NoRevision // another manager assumes that it has lost a pod
		}
	}
}

// hasOnlyOthers reports whether a node has pods, and no live one of the target. Pods that terminate count as long as the node is ready: until they are gone, their removal uses up the budget and the pace.
func (r *run) hasOnlyOthers(n *rollout.Node) bool {
	others := false
	for k := range n.Pods {
		switch p := &n.Pods[k]; {
		case p.Deleting:
			others = others || n.Ready && p.Revision != r.template
		case p.Revision == r.template:
			return false
		default:
			others = true
		}
	}
	return others
}

// fitCommitted lets the nodes of a Snapshot have pods where the committed revision may run. A node that only the target selects ends without one: it is emptied within the budget.
func (r *run) fitCommitted(s *rollout.Snapshot) {
	if r.fits == nil {
		return
	}
	s.Nodes, r.out.Fits = slices.Clone(s.Nodes), make([]rollout.Fit, len(s.Nodes))
	for i, fit := range r.fits {
		if fit == rollout.MustLeave && r.targetFits[i] != rollout.MustLeave {
			fit = rollout.MayStay
		}
		r.out.Fits[i] = fit
		refit(s, i, fit)
	}
}

// refit gives a node of a Snapshot another fit. Where only the target may run, its pods are removed also by a set that updates no nodes that only keep their pod.
func refit(s *rollout.Snapshot, i int, fit rollout.Fit) {
	n := &s.Nodes[i]
	n.Emptied, n.Fit = fit > n.Fit && hasTarget(s, n), fit
}

// Enter applies the result to the Snapshot. change says how a pod of the revision with the first index becomes one of the second in place; it is nil
// for a set that changes no pods in place. Nodes that return to the committed revision wait for no images: those that the Snapshot knows of are those of the revision that has failed.
func (r *Result) Enter(s *rollout.Snapshot, change func(from, to int) rollout.Change) {
	s.Gate = r.Gate
	if r.Fits != nil {
		s.Nodes = slices.Clone(s.Nodes)
	}
	for i, fit := range r.Fits {
		refit(s, i, fit)
	}
	tighten(s, r.MaxUnavailable)
	if r.Wanted < 0 {
		return
	}
	returnTo(&s.Set, r.Wanted)
	for i := range s.Nodes {
		s.Nodes[i].ImageWait, s.Nodes[i].ImageUntil = false, 0
	}
	s.Revisions = slices.Clone(s.Revisions)
	for i := range s.Revisions {
		s.Revisions[i].Change = rollout.Change{}
		if change != nil {
			s.Revisions[i].Change = change(i, r.Wanted)
		}
	}
}
