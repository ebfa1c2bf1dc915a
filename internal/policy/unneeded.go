// SPDX-License-Identifier: Apache-2.0

package policy

// NoNodeEligible is the reason in a status while no node needs a pod of the set, and nodes keep old ones.
const NoNodeEligible = "NoNodeEligible"

const unneededText = "Nodes keep old pods, but no node needs a pod of the daemon set now, because of taints, labels, or the template. So the waves are empty, and no node would show that the revision works: " +
	"correct the template if it selects no node, remove the taints, add tolerations to the template, or delete the old pods."

// unneeded reports whether no node needs a pod of the set, but nodes keep old ones, for example because all nodes have a taint. Each wave that takes a number of nodes is empty then.
// If such waves passed, the nodes would all start at once, without any that shows that the revision works.
func (r *run) unneeded() bool {
	keep := false
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if member(r.s, n) {
			return false
		}
		keep = keep || r.standing[i].AwaitsUpdate && len(n.Pods) > 0 && !n.Gone
	}
	return keep
}
