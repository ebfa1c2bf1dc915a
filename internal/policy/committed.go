// SPDX-License-Identifier: Apache-2.0

package policy

import "everynode.dev/everynode/internal/rollout"

// findCommitted finds the revision with the newest mark that a stranger cannot have written, or else the one that most pods have. If its ControllerRevision was deleted, none is committed: nothing
// returns to another one, and the target goes through all waves. Of equal marks, which have the highest number, that of the newer revision counts.
func (r *run) findCommitted() {
	best := int64(0)
	for i := range r.in.Revisions {
		if rev := &r.in.Revisions[i]; rev.Committed > 0 && rev.Committed >= best && !rev.Foreign {
			best, r.committed, r.marked = rev.Committed, rev.Same, true
		}
	}
	if !r.marked {
		r.guessCommitted()
		if i := r.remembered(); i >= 0 {
			r.committed, r.lost = i, false
		}
	}
	r.joining = r.committed
	if r.lost {
		r.committed = rollout.NoRevision
	}
}

// guessCommitted finds the revision that most pods have, and whether the committed one has been lost: it is known to have existed, or more pods have a
// revision that is gone than any other.
func (r *run) guessCommitted() {
	counts, gone := make([]int, len(r.s.Revisions)), 0
	for i := range r.s.Nodes {
		for k := range r.s.Nodes[i].Pods {
			if of := r.s.Nodes[i].Pods[k].Revision; of >= 0 && of < len(counts) {
				counts[of]++
			} else {
				gone++
			}
		}
	}
	r.committed = r.s.Set.Update
	known := r.knownLost()
	for i, count := range counts {
		first := known && r.committed == r.s.Set.Update && i != r.committed && !r.revision(i).Foreign
		if count > counts[r.committed] || first {
			r.committed = i
		}
	}
	r.lost = known || gone > counts[r.committed]
}

// knownLost is whether the last decision knew of a committed revision other than the target, or that it had been lost.
func (r *run) knownLost() bool {
	last := r.in.Last
	return last != nil && last.TargetRevision != "" && last.CommittedRevision != r.target().Name
}

// remembered is the index of the revision that was committed at the last decision; -1 if it is gone, or nothing is known.
func (r *run) remembered() int {
	for i := range r.in.Revisions {
		if rev := &r.in.Revisions[i]; r.in.Last != nil && !rev.Foreign && rev.Name != "" && rev.Name == r.in.Last.CommittedRevision {
			return i
		}
	}
	return -1
}
