// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// keptBySet returns a function that reports why the partition or the selector of the set keeps a node on a revision that is older than the committed one; NotEvaluated if they do not. The
// target has never reached such a node, so its undo does not update it either.
func (r *run) keptBySet() func(i int) rollout.VerdictKind {
	if !r.s.Set.Selective && r.s.Set.Partition.Value == 0 {
		return func(int) rollout.VerdictKind { return rollout.NotEvaluated }
	}
	s := *r.s
	s.Gate, s.Set.Paused = nil, false
	held := s.Held()
	return func(i int) rollout.VerdictKind {
		switch n := &s.Nodes[i]; {
		case !r.onlyProven(n) || !held(i):
			return rollout.NotEvaluated
		case s.Set.Selective && !n.Selected:
			return rollout.WaitSelector
		default:
			return rollout.WaitPartition
		}
	}
}

// onlyProven reports whether all pods of a node, or the last one of a node without any, have a revision that is older than the committed one, and has not failed.
func (r *run) onlyProven(n *rollout.Node) bool {
	if len(n.Pods) == 0 {
		return r.isProven(n.Last)
	}
	for k := range n.Pods {
		if !r.isProven(n.Pods[k].Revision) {
			return false
		}
	}
	return true
}

func (r *run) isProven(revision int) bool {
	all := r.s.Revisions
	return revision >= 0 && revision < len(all) && r.committed >= 0 && r.committed < len(all) && all[revision].Number < all[r.committed].Number && r.revision(revision).Failed == nil
}

// awaitsReturned reports whether an undo that has replaced all pods has not ended yet: pods that it has created are not available, and have not had their time, or more have failed than
// may.
func (r *run) awaitsReturned() bool {
	if last := r.last; r.failed == nil || last == nil || last.Phase != v1alpha1.PhaseUndoing && !blocks(last, blockedUndoFailed) {
		return false
	}
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		w, known := r.out.Watch.nodes[n.Name]
		if n.Ready && r.standing[i].UnderWay && !r.hasFailedOn(i) && known && !w.before && !w.untouched && !w.joined {
			return true
		}
	}
	failed, most := r.failedUndo()
	return len(failed) > most
}

// countUndone corrects the numbers of the waves of a revision that is undone: they are those of the nodes that still have it. An undo takes the waves from the end, so these nodes belong to the
// first ones.
func (r *run) countUndone() {
	updated, available := int32(0), int32(0)
	progress := r.in.Snapshot.Progress() // r.s may be about the committed revision
	for i := range r.in.Snapshot.Nodes {
		p := progress(i)
		if !member(r.in.Snapshot, &r.in.Snapshot.Nodes[i]) {
			continue
		}
		if p.Updated {
			updated++
		}
		if p.Available {
			available++
		}
	}
	take := func(number, left *int32) {
		*number = min(*number, *left)
		*left -= *number
	}
	st := r.out.Status
	st.Waves = slices.Clone(st.Waves)
	for k := range st.Waves {
		take(&st.Waves[k].Updated, &updated)
		take(&st.Waves[k].Available, &available)
	}
}

// unreached says that no node has had the revision, if that is so, and else what the undo does.
func (r *run) unreached(undo string) string {
	if r.last == nil || len(r.last.Waves) == 0 {
		return undo
	}
	for i := range r.s.Nodes {
		if r.reached(i) {
			return undo
		}
	}
	for k := range r.last.Waves {
		if w := &r.last.Waves[k]; w.Phase != v1alpha1.WavePending || len(w.Begun) > 0 || w.Gone > 0 {
			return undo
		}
	}
	return "No node has had the revision, so no node must return."
}

// returnedText says that an undo has ended, and which nodes still have another revision: those that are not ready return later, and so do those that the set does not update now.
func (r *run) returnedText(to string) string {
	var away, kept []string
	bySet := r.keptBySet()
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		other := func(p rollout.Pod) bool { return p.Revision != r.committed } // a kubelet that does not answer keeps it also after its deletion
		switch {
		case !slices.ContainsFunc(n.Pods, other) || bySet(i) != rollout.NotEvaluated:
		case r.onlyKeeps(i):
			kept = append(kept, n.Name)
		case member(r.s, n) && !n.Ready:
			away = append(away, n.Name)
		}
	}
	text := fmt.Sprintf("The nodes have returned to %s.", to)
	if len(away) > 0 {
		text = fmt.Sprintf("The nodes have returned to %s, except those that are not ready and still have another one (%d): %s. They return when they are ready.", to, len(away), some(away, mostNamed))
	}
	if len(kept) > 0 {
		text += fmt.Sprintf(" Nodes that only keep their pod, because of a taint or a label, still have another one (%d): %s. They return when the pod may run there again; otherwise delete their pods.", len(kept), some(kept, mostNamed))
	}
	return text
}

// onlyKeeps reports whether a node only may keep its old pod, and the set updates no such node.
func (r *run) onlyKeeps(i int) bool {
	n := &r.s.Nodes[i]
	return r.s.Set.EligibleOnly && n.Fit == rollout.MayStay && !n.Emptied && !n.Gone
}
