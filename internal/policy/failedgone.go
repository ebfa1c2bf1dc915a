// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// maxFailed is how many failed nodes of a wave a status describes. It names others only with the reason, because they count also when they have left the wave (failedGone).
const maxFailed = 10

// noteFailed adds a node to those of a wave on which the revision has failed.
func noteFailed(st *v1alpha1.WaveStatus, node *v1alpha1.FailedNode) {
	switch named := len(st.FailedNodes); {
	case named < maxFailed:
		st.FailedNodes = append(st.FailedNodes, *node)
	case named < maxNames:
		st.FailedNodes = append(st.FailedNodes, v1alpha1.FailedNode{Name: node.Name, Reason: node.Reason})
	}
	st.Failed++
}

// failedGone are the nodes of a wave on which the revision had failed, and that have left the wave since. They still count: otherwise a revision that destroys one node after the other, or has them tainted or replaced, would
// never fail on more nodes than may fail. The last status names them, so another manager knows of them too.
func (r *run) failedGone(k int) (nodes []v1alpha1.FailedNode) {
	was := r.before(r.p.Waves[k].Name)
	if was == nil || r.failed == nil {
		return nil
	}
	for i := range was.FailedNodes {
		if r.hasLeft(was.FailedNodes[i].Name) {
			nodes = append(nodes, was.FailedNodes[i])
		}
	}
	return nodes
}

// hasLeft reports whether no wave has a node: it does not exist, or must not run the pod now.
func (r *run) hasLeft(name string) bool {
	i, found := slices.BinarySearchFunc(r.s.Nodes, name, func(n rollout.Node, name string) int { return cmp.Compare(n.Name, name) })
	return !found || r.s.Nodes[i].Gone || !member(r.s, &r.s.Nodes[i]) && !r.standing[i].Available
}
