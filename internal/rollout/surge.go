// SPDX-License-Identifier: Apache-2.0

package rollout

// finishing is whether the old pod of a pair can go: the new one has taken over, or the old one serves nobody any more.
func (d *decision) finishing(c *census) bool {
	if c.current == nil || c.old == nil {
		return false
	}
	return d.serving(c.current) || !c.old.ready()
}

// sunken is whether an update with surge may not create beside the old pod of a node, because no new pod may come there.
func (d *decision) sunken(i int) bool {
	return d.surge && d.in.Nodes[i].Fit == MayStay
}

// drop deletes an old pod that will have no successor.
func (d *decision) drop(i int) {
	t := site{index: i, node: &d.in.Nodes[i]}
	d.begun(t.part(d.oldPodOf(i), Removing))
}

// sunset removes available old pods from nodes where no new pod may come, but only as many as there are available pods
// beyond the desired number, and young ones as soon as there are as many: with 3 desired nodes and 4 available pods in all, one. So when a set moves from some nodes to
// others, the pods it leaves behind go one by one as those elsewhere become available.
func (d *decision) sunset() {
	for k := range d.verdicts {
		if d.tally.spare < 0 {
			return
		}
		i := d.inOrder(k)
		if d.verdicts[i].Kind != WaitSurgeRemove || !d.mayStart(i) {
			continue
		}
		cost := 1
		if d.young(d.oldPodOf(i)) {
			cost = 0 // it is none of the available ones
		}
		if cost <= d.tally.spare {
			d.tally.spare -= cost
			d.drop(i)
		}
	}
}
