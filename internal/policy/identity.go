// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"slices"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// identity is whether a status is about the rollout that is decided about.
type identity int

const (
	anotherRollout identity = iota
	sameRollout
	// perhapsSame is a status about the same template that does not show whether the template described another one since.
	perhapsSame
)

// findLast finds what is known of this rollout. If it is unclear whether the last status is about it, only what holds the revision counts, and not the progress: a field
// that was lost releases no node.
func (r *run) findLast() {
	r.out.Memory.number = r.revisionNumber()
	switch last := r.in.Last; r.in.identify(r.template, r.revisionNumber()) {
	case sameRollout:
		r.last, r.rollout = last, last.TargetNumber
	case perhapsSame:
		r.rollout = last.TargetNumber
		if last.Failure == nil && !r.rejected() {
			r.rollout = 0
			return
		}
		held := *last
		held.Waves, held.Analyses, held.Alerts, held.StartedAt = nil, nil, nil, nil
		r.last = &held
	default:
		if r.knowsNothing() {
			r.rollout = r.heldNumber()
		}
	}
}

// heldNumber is the number of the last rollout of the template that a user has rejected or undone; 0 for none. If there is no status, this is that rollout: another account
// can raise the number of the revision meanwhile, and that releases no node.
func (r *run) heldNumber() (number int64) {
	for i := range r.in.Approvals {
		if a := &r.in.Approvals[i]; a.Status.State == v1alpha1.ApprovalValid && holds(a) && r.aboutTarget(a) {
			number = max(number, a.Status.TargetNumber)
		}
	}
	return number
}

// Continues reports whether the last status is about the rollout that is decided about.
func (in *Input) Continues() bool {
	target := in.Snapshot.Set.Update
	return target >= 0 && target < len(in.Revisions) && target < len(in.Snapshot.Revisions) && in.identify(target, in.Snapshot.Revisions[target].Number) == sameRollout
}

// identify compares the last status with the rollout of a revision, which has that number now. Its name and number do not identify the rollout: another account can create a
// copy of the ControllerRevision, or another one with a higher number, and then the manager raises the number of the target. But while the generation of the set is the
// same, its template is too. If the generation has changed, the template has not if the revision has kept its number, because the manager raises that when the template
// returns; or if the generation has increased by one, because another template and the way back are two changes. If both have changed more, the rollout
// may still be the same if the status reports a failure and the mark of that failure has the present number: the manager writes the mark again after it has raised the number of a revision that has failed.
func (in *Input) identify(target int, number int64) identity {
	last := in.Last
	if last == nil || last.TargetRevision == "" {
		return anotherRollout
	}
	known := last.UID != "" && last.UID == in.UID && last.ObservedGeneration != 0 && in.Generation != 0
	switch {
	case known && last.ObservedGeneration == in.Generation:
		return sameRollout
	case !in.describes(target, last.TargetRevision):
		return anotherRollout
	case last.TargetNumber == number || in.Memory != nil && in.Memory.number == number:
		return sameRollout
	case !known: // an earlier version of the manager wrote the status, or the set was created again, as by a restore from a backup
		return perhapsSame
	case last.ObservedGeneration+1 == in.Generation:
		return sameRollout
	case last.Failure != nil && in.mark(target, number) != nil:
		return perhapsSame
	default:
		return anotherRollout
	}
}

// describes reports whether a revision with that name has the template of another one.
func (in *Input) describes(target int, name string) bool {
	return slices.ContainsFunc(in.Revisions, func(rev Revision) bool { return rev.Name == name && rev.Name != "" && rev.Same == target })
}

// describes reports whether the template is that of the revision with that name.
func (r *run) describes(name string) bool { return r.in.describes(r.template, name) }

// afterLast is the next number after that of the last rollout, if it was another one of this daemon set: another account can lower the numbers of revisions, and a decision about an earlier rollout
// would count again. 0 if there is none.
func (r *run) afterLast() int64 {
	last := r.in.Last
	if last == nil || last.UID == "" || last.UID != r.in.UID || r.describes(last.TargetRevision) || last.TargetNumber == math.MaxInt64 {
		return 0
	}
	return last.TargetNumber + 1
}

// number identifies the rollout among those of its template: it is the number of the revision when the rollout began, or the one that it gets next, because a
// revision of another template has a higher one, or the last rollout had.
func (r *run) number() int64 {
	if r.rollout == 0 {
		r.rollout = r.revisionNumber()
		for i := range r.in.Revisions {
			if highest := r.s.Revisions[i].Number; r.in.Revisions[i].Same != r.template && highest >= r.rollout && highest < math.MaxInt64 {
				r.rollout = highest + 1
			}
		}
		r.rollout = max(r.rollout, r.afterLast())
	}
	return r.rollout
}

// revisionNumber is the number that the revision of the template has now. Marks have that one: it identifies their rollout also if the status is lost.
func (r *run) revisionNumber() int64 { return r.s.Revisions[r.template].Number }

// markedFailed is the mark of the target for this rollout; nil if there is none.
func (r *run) markedFailed() *everynode.Failure { return r.markOf(r.template) }

// markOf is the mark of a revision; nil if it has none, or only that of an earlier rollout.
func (r *run) markOf(i int) *everynode.Failure { return r.in.mark(i, r.s.Revisions[i].Number) }

// mark is the mark of a revision that has that number now; nil if it has none, or only that of an earlier rollout.
func (in *Input) mark(i int, number int64) *everynode.Failure {
	if i >= len(in.Revisions) {
		return nil
	}
	if mark := in.Revisions[i].Failed; mark != nil && mark.Number == number {
		return mark
	}
	return nil
}

// anyMarkedFailed is the mark of a revision with the template of the target, which may be a copy of the one that has failed; nil if there is none.
func (r *run) anyMarkedFailed() *everynode.Failure {
	for i := range r.in.Revisions {
		if mark := r.markOf(i); mark != nil && r.in.Revisions[i].Same == r.template {
			return mark
		}
	}
	return nil
}
