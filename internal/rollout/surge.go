// SPDX-License-Identifier: Apache-2.0

package rollout

// surgeCompleted reports whether the old pod of a pair can go: the new one has taken over, or the old one serves no client any more.
func (d *decision) surgeCompleted(c *podCounts) bool {
	if c.current == nil || c.old == nil {
		return false
	}
	return d.serving(c.current) || !c.old.ready()
}

// mayNotSurge reports whether an update with surge may not create next to the old pod of a node, because no new pod may come there.
func (d *decision) mayNotSurge(i int) bool {
	return d.surge && d.in.Nodes[i].Fit == MayStay
}

// removeWithoutSuccessor deletes an old pod that will have no successor.
func (d *decision) removeWithoutSuccessor(i int) {
	t := nodeContext{index: i, node: &d.in.Nodes[i]}
	d.begun(t.startDelete(d.oldPodOf(i), Removing))
}

// removeSurplus removes available old pods from nodes where no new pod may come, but only as many as there are available pods
// beyond the desired number, and those that are not ready for long enough as soon as there are as many: with 3 desired nodes and 4 available pods in all, one. So when a set moves from some nodes to
// others, the pods it leaves behind go one by one as those elsewhere become available.
func (d *decision) removeSurplus() {
	for k := range d.verdicts {
		if d.usage.spare < 0 {
			return
		}
		i := d.inOrder(k)
		if d.verdicts[i].Kind != WaitSurgeRemove || !d.mayStart(i) {
			continue
		}
		cost := 1
		if d.minReadyPending(d.oldPodOf(i)) {
			cost = 0 // it is none of the available ones
		}
		if cost <= d.usage.spare && d.removeInTime(i) {
			d.usage.spare -= cost
		}
	}
}
