// SPDX-License-Identifier: Apache-2.0

package policy

import "everynode.dev/everynode/internal/rollout"

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
