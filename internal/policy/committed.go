// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// findCommitted finds the committed revision: the one that the status names, which only managers write. Marks are on objects that others may also write,
// so without that name they can only hold nodes: the mark of the target counts if no pod has another revision, and otherwise the newest mark of another
// revision. If there is no mark either, the revision counts that most pods have. If the ControllerRevision of the committed one was deleted, none is
// committed: nothing returns to another one, and the target goes through all waves.
func (r *run) findCommitted() {
	newest := r.newestMark(rollout.NoRevision)
	r.anyMark = newest != rollout.NoRevision
	found, known := r.remembered(), r.in.Last != nil && r.in.Last.CommittedRevision != ""
	if !known && len(r.in.Policies) > 0 && newest == r.template && r.elsewhere() {
		found = r.newestMark(r.template)
	} else if !known {
		found = newest
	}
	if found != rollout.NoRevision {
		r.committed, r.marked, r.recorded = found, found == newest, known
	} else {
		r.guessCommitted()
		r.lost = r.lost || known
		r.marked = !r.lost && r.committed == newest
	}
	r.joining = r.committed
	if r.lost {
		r.committed = rollout.NoRevision
	}
}

// newestMark returns the revision with the newest mark, excluding one revision; rollout.NoRevision if there
// is none. If marks are equal because they have the highest possible number, the mark of the newer revision
// counts.
func (r *run) newestMark(except int) int {
	best, newest := int64(0), rollout.NoRevision
	for i := range r.in.Revisions {
		if rev := &r.in.Revisions[i]; rev.Committed > 0 && rev.Committed >= best && !rev.Foreign && rev.Same != except {
			best, newest = rev.Committed, rev.Same
		}
	}
	return newest
}

// elsewhere reports whether a pod has another revision than the target.
func (r *run) elsewhere() bool {
	for i := range r.s.Nodes {
		for k := range r.s.Nodes[i].Pods {
			if r.s.Nodes[i].Pods[k].Revision != r.template {
				return true
			}
		}
	}
	return false
}

// guessCommitted finds the revision that most pods have, or had on nodes without one, and whether the committed one has been lost: it is known to have existed, or more pods have a revision that is
// gone than any other. If the status has no digest, a revision that no pod has comes before the target: with one, it is known not to be the committed one.
func (r *run) guessCommitted() {
	counts, gone := make([]int, len(r.s.Revisions)), 0
	add := func(of int) {
		if of >= 0 && of < len(counts) {
			counts[of]++
		} else {
			gone++
		}
	}
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		for k := range n.Pods {
			add(n.Pods[k].Revision)
		}
		if len(n.Pods) == 0 && n.Last != rollout.NoRevision && !n.Gone { // a user has deleted its pod
			add(n.Last)
		}
	}
	r.committed = r.s.Set.Update
	known, digest := r.knownLost(), r.in.Last != nil && r.in.Last.CommittedDigest != ""
	for i, count := range counts {
		first := known && !digest && r.committed == r.s.Set.Update && i != r.committed && !r.revision(i).Foreign
		if count > counts[r.committed] || first {
			r.committed = i
		}
	}
	r.lost = known || gone > counts[r.committed]
}

// knownLost reports whether the last decision knew of a committed revision other than the target, or that it had been lost.
func (r *run) knownLost() bool {
	last := r.in.Last
	return last != nil && last.TargetRevision != "" && last.CommittedRevision != r.target().Name
}

// lostText says that the ControllerRevision of the committed revision was deleted.
func (r *run) lostText() string {
	if last := r.in.Last; last != nil && last.CommittedRevision != "" {
		return fmt.Sprintf("the ControllerRevision %s of the committed revision does not exist any more", last.CommittedRevision)
	}
	return "the ControllerRevision of the committed revision does not exist any more"
}

// remembered is the revision that was committed at the last decision; rollout.NoRevision if it is gone, or nothing is known.
func (r *run) remembered() int {
	if i := Remembered(r.in.Last, r.in.Revisions); i >= 0 {
		return r.in.Revisions[i].Same
	}
	return rollout.NoRevision
}

// Remembered is the index of the revision that a status names as committed; -1 if there is none. The digest
// must match: another account can create a revision with the same name again. The status of an earlier
// manager has only the name.
func Remembered(last *v1alpha1.SetStatus, revisions []Revision) int {
	for i := range revisions {
		rev := &revisions[i]
		if last == nil || last.CommittedRevision == "" || rev.Foreign || rev.Name == "" {
			continue
		}
		if last.CommittedDigest == "" && rev.Name == last.CommittedRevision || last.CommittedDigest != "" && rev.Digest == last.CommittedDigest {
			return i
		}
	}
	return -1
}
