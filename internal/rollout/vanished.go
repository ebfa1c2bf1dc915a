// SPDX-License-Identifier: Apache-2.0

package rollout

// beginsByCreate reports whether a create on a node would begin its update: its last pod had another revision, and no update has taken it. A user may have deleted it, or the
// node may have evicted it.
func (d *decision) beginsByCreate(n *Node, revision int) bool {
	g := d.in.Gate
	return g != nil && g.Creates && d.in.Set.Strategy == RollingUpdate && revision == d.in.Set.Update && n.Last != revision && d.inHistory(n.Last) && !d.hasBegun(n)
}

// hasBegun reports whether the update of a node has begun. With a surge, a pod is also created next to an old one that its preDelete hook has not released, or that is about to be deleted.
func (d *decision) hasBegun(n *Node) bool {
	begun, _ := d.progressOf(n)
	return begun
}

// paceCreates lets those creates begin an update that the pace of the policy allows. The others are not delayed: the node gets its last revision once more, and is updated in its turn.
func (d *decision) paceCreates(creates []Action) {
	for k := range creates {
		a := &creates[k]
		if a.Kind != Create || !d.beginsByCreate(&d.in.Nodes[a.Node], a.Revision) {
			continue
		}
		counted := d.turnOf(&d.in.Nodes[a.Node]) != atOnce
		if d.paced(counted) {
			a.Revision = d.in.Nodes[a.Node].Last
			continue
		}
		a.Begins = true
		d.usage.starts++
		if !counted {
			d.usage.paced++
		}
	}
}
