// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"

	"everynode.dev/everynode/internal/rollout"
)

// keptOut reports whether a node waits for its first pod because only the target may run there: its wave has not begun, and a pod of the committed revision would wait for ever.
func (r *run) keptOut(i int) bool {
	return !r.undoing && r.onlyTargetFits(i) && !r.isReleased(i) && r.s.Nodes[i].Last != r.template
}

// onlyTargetFits reports whether a node has no pod, and must run one of the target, while one of the committed revision may not run there.
func (r *run) onlyTargetFits(i int) bool {
	n := &r.s.Nodes[i]
	return r.fits != nil && len(n.Pods) == 0 && desired(n) && r.fits[i] != rollout.MustRun
}

// onlyKept reports whether a node only keeps its pod until its wave, because the target excludes it. Its pod needs not be available: a change that excludes the nodes on which pods do not work could not begin otherwise.
func (r *run) onlyKept(i int) bool {
	return r.fits != nil && !r.undoing && r.targetFits[i] == rollout.MustLeave && r.s.Nodes[i].Fit == rollout.MayStay
}

// empties reports whether an update still removes pods of nodes that the target excludes. If the target was committed before, all of them would be removed at once, without the budget and the pace. Nodes that are not ready, and those of which the API server
// denies a write, do not delay the end of a rollout; those for which it cannot call a webhook do, because all could be such nodes for a minute. An Advanced DaemonSet updates no node that only keeps its pod, so its pods are removed at the end. The same holds where a percentage is
// one of no nodes: with that budget, no update would ever remove a pod.
func (r *run) empties() bool {
	if r.s.Set.EligibleOnly || !r.surges() && r.s.Set.MaxUnavailable.Percent && !slices.ContainsFunc(r.s.Nodes, func(n rollout.Node) bool { return desired(&n) }) {
		return false
	}
	var kept, unclear []string
	serve := true
	for i := range r.s.Nodes {
		if n := &r.s.Nodes[i]; r.onlyKept(i) && r.standing[i].AwaitsUpdate && n.Ready && !refused(n) {
			kept, serve = append(kept, n.Name), serve && r.serves(i)
			if n.Refusal != nil {
				unclear = append(unclear, refusedOn(n))
			}
		}
	}
	if len(kept) == 0 {
		return false
	}
	r.blockedBySet("nodes that the template excludes may keep their pods")
	r.blockRefused(unclear)
	if serve && !r.s.Set.Paused { // pods that are not available leave without a budget
		r.blockedEmptying(kept)
	}
	return true
}

// blockedEmptying reports when nodes that are stuck let no pod leave the nodes that the target excludes. With a surge, as many available pods stay as nodes must run one.
func (r *run) blockedEmptying(kept []string) {
	stuck, most := r.budget(func(i int) bool {
		uses := r.charged(i)
		if r.surges() {
			uses = desired(&r.s.Nodes[i]) && !r.serves(i)
		}
		return uses && !r.leaves(i) && !(r.onlyKept(i) && live(&r.s.Nodes[i])) && (r.isLeftOut(i) || r.hasFailedOn(i) || r.isStuck(i))
	})
	lack, uses, pods := "1 node has no available pod", "uses", "its pod"
	if stuck > 1 {
		lack, uses, pods = fmt.Sprintf("%d nodes have no available pod", stuck), "use", "their pods"
	}
	switch {
	case r.surges() && stuck >= len(kept):
		r.block("Budget", fmt.Sprintf("No pod leaves the nodes that the template excludes (%s), because the set surges and %s. Make %s available, or delete the pods on the excluded nodes.", some(kept, mostNamed), lack, pods))
	case !r.surges() && stuck >= most:
		r.block("Budget", fmt.Sprintf("No pod leaves the nodes that the template excludes: %s and %s up the budget, for maxUnavailable is %d. Make %s available, or raise maxUnavailable.", lack, uses, most, pods))
	}
}

// leaves reports whether the pods of a node that the target excludes terminate, and have not done so for long.
func (r *run) leaves(i int) bool {
	n, asked := &r.s.Nodes[i], rollout.Time(0)
	for k := range n.Pods {
		asked = max(asked, n.Pods[k].DeletedAt)
	}
	return r.onlyKept(i) && !live(n) && asked != 0 && r.remains(youngPod-r.s.Now.Sub(asked))
}

// live reports whether a node has a pod that does not terminate.
func live(n *rollout.Node) bool {
	return slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool { return !p.Deleting })
}

// unfit names these nodes; nil for none.
func (r *run) unfit() (all []bool) {
	if r.fits == nil {
		return nil
	}
	for i := range r.s.Nodes {
		if r.onlyTargetFits(i) || r.onlyKept(i) {
			if all == nil {
				all = make([]bool, len(r.s.Nodes))
			}
			all[i] = true
		}
	}
	return all
}
