// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
)

// startUpdates replaces old pods within the budget. It goes through the verdicts, not the nodes: visit has left the
// candidates there, so a node that is not touched costs two bytes.
func (d *decision) startUpdates() {
	if !d.usable || d.in.Set.Strategy != RollingUpdate {
		return
	}
	d.usage.Budget = d.limit()
	d.usage.spare = d.usage.available - d.status.Desired
	d.paceCreates(d.queue.missing)
	waiting := d.found[WaitReplacing] || d.found[WaitBudget] || d.found[WaitSurgeRemove]
	if waiting {
		if d.in.Gate != nil && d.in.Gate.NewestFirst {
			d.order = d.newestFirst()
		}
		d.startRound(atOnce)
	}
	d.paceCreates(d.queue.again)
	if waiting && d.refusals {
		d.startRound(last)
	}
	if d.usage.earlier > 0 && d.trust.at != 0 {
		d.wakeAt(d.trust.at)
	}
}

// startRound starts updates on the nodes that have their turn. Each step goes through all nodes, so one that has none to find is left out.
func (d *decision) startRound(t turn) {
	d.round = t
	if d.found[WaitReplacing] {
		d.startUnavailable()
	}
	if d.found[WaitBudget] {
		d.startAvailable()
	}
	if d.found[WaitSurgeRemove] {
		d.removeSurplus()
	}
}

// startUnavailable replaces the old pods that are not available, which costs no available pod. Without surge they are charged
// already, because they are unavailable; with surge they cost nothing. Only Set.MaxReplacing holds them back: with 3 nodes
// in flight and a cap of 5, two more may start. And those that are ready, but not for long enough, stay as long as more nodes are charged than may be.
func (d *decision) startUnavailable() {
	limit := d.replacingLimit()
	for k := range d.verdicts {
		i := d.inOrder(k)
		if d.verdicts[i].Kind != WaitReplacing || !d.mayStart(i) {
			continue
		}
		if d.mayNotSurge(i) {
			d.removeInTime(i)
			continue
		}
		if d.usage.free() < 0 && d.minReadyPending(d.oldPodOf(i)) {
			d.verdicts[i].Detail = DetailMinReadyPending
			continue
		}
		changing := d.oldPodOf(i).InPlace != InPlaceNone // so the node is in flight already
		if !changing && limit >= 0 && d.usage.inFlight >= limit {
			continue
		}
		if d.paced(changing) {
			d.verdicts[i].Kind = WaitPace
			continue
		}
		if !changing {
			d.usage.inFlight++
			d.usage.paced++
		}
		d.usage.starts++
		d.replace(i)
	}
}

// removeInTime is removeWithoutSuccessor at the pace of the policy, and reports whether the pace allows it.
// The node does not count as being updated, because no pod follows.
func (d *decision) removeInTime(i int) bool {
	if g := d.in.Gate; g != nil && g.Starts >= 0 && d.usage.starts >= g.Starts {
		d.verdicts[i].Kind = WaitPace
		return false
	}
	d.usage.starts++
	d.removeWithoutSuccessor(i)
	return true
}

// freeToReplace reports whether an old pod can be replaced without losing an available pod. For a doubtful
// pod this is not known, so it counts as the more expensive case: without surge as unavailable, for which it
// is charged already; with surge as one that still serves, and to which a second one is not added for
// nothing. The same goes for one that is ready, but not for long enough.
func (d *decision) freeToReplace(p *Pod) bool {
	if d.surge && !p.preparing() {
		return !d.available(p) && !d.minReadyPending(p)
	}
	return !d.serving(p)
}

// minReadyPending reports whether a pod is ready, but not for long enough by the clock; and the clock may have been set back, or that of the node may be
// fast. For the native controller all such pods are free to be replaced at once: after a step back that may be every pod of the cluster.
func (d *decision) minReadyPending(p *Pod) bool {
	return p.ready() && !d.available(p) && p.ReadySince != 0
}

// inOrder is the index of the node that is number k in the order in which the set updates its nodes, or the policy has them updated.
func (d *decision) inOrder(k int) int {
	if d.order != nil {
		return d.order[k]
	}
	if d.in.Set.Descending {
		return len(d.verdicts) - 1 - k
	}
	return k
}

// newestFirst returns the nodes, those with the youngest pods first.
func (d *decision) newestFirst() []int {
	order := make([]int, len(d.in.Nodes))
	created := make([]Time, len(d.in.Nodes))
	for i := range d.in.Nodes {
		order[i] = i
		for k := range d.in.Nodes[i].Pods {
			created[i] = max(created[i], d.in.Nodes[i].Pods[k].Created)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(created[b], created[a]) })
	return order
}

// replacingLimit is the cap on nodes in flight, -1 for none.
func (d *decision) replacingLimit() int {
	if d.in.Set.MaxReplacing == nil {
		return -1
	}
	return d.in.Set.MaxReplacing.Of(d.status.Desired)
}

// startAvailable replaces old pods that are available, as many as the budget has slots left, in the order of the set.
func (d *decision) startAvailable() {
	for k := range d.verdicts {
		if d.updatesLeft() <= 0 {
			break
		}
		i := d.inOrder(k)
		if d.verdicts[i].Kind != WaitBudget || !d.mayStart(i) {
			continue
		}
		if d.paced(false) {
			d.verdicts[i].Kind = WaitPace
			continue
		}
		d.usage.starts++
		d.usage.taken++
		d.usage.used++
		d.usage.begun++
		if d.replace(i) {
			d.verdicts[i].Charged = true
			d.usage.UsedByUpdate++
		}
	}
}

// replace starts the update of a node with one old pod, if the plan has room for it.
func (d *decision) replace(i int) bool {
	t := nodeContext{index: i, node: &d.in.Nodes[i]}
	if d.surge {
		return d.begun(t.create(d.in.Set.Update, Surging))
	}
	p := d.oldPodOf(i)
	able, why := d.inPlace(t.node, p)
	if able {
		return d.change(&t, p)
	}
	a := t.startDelete(p, Recreating)
	a.Detail = why
	return d.begun(a)
}

// begun starts an action of an update, or makes its node wait for the next plan.
func (d *decision) begun(a Action) bool {
	if d.queue.start(a) {
		d.verdicts[a.Node].Kind = a.Reason
		return true
	}
	d.verdicts[a.Node].Kind = WaitBurst
	return false
}

// oldPodOf finds the pod of a node on which an update may start: it is the only one there that is not terminating.
func (d *decision) oldPodOf(i int) *Pod {
	pods := d.in.Nodes[i].Pods
	for k := range pods {
		if p := &pods[k]; !p.Deleting {
			return p
		}
	}
	return nil
}
