// SPDX-License-Identifier: Apache-2.0

package rollout

import "math"

// notHeld is the hold of a node that an update may start on.
const notHeld = NotEvaluated

// holdNodes determines which nodes the limits of the set hold back, and why (for those of a policy alone see
// hold): first, every node is held whose update is neither done nor begun; then as many are released as the
// partition allows. With 10 desired nodes, a partition of 4, 3 nodes that run the wanted revision and one in
// the middle of its update, that is 2.
//
// The limits belong to the rolling update, so they have no effect with OnDelete. For a set without limits and without a policy, this costs nothing.
func (d *decision) holdNodes() {
	set := &d.in.Set
	limited := set.Strategy == RollingUpdate && (set.EligibleOnly || set.Paused || set.Selective || set.Partition.Value > 0)
	if !d.usable {
		return
	}
	d.gating = d.gated()
	if !limited {
		return
	}
	d.holds = make([]VerdictKind, len(d.in.Nodes))
	d.holdByLimits()
	if d.gating {
		d.holdByPolicy()
	}
}

// holdByLimits is holdNodes for the limits of the set. Of the nodes that the partition can release, those
// that a policy holds come last, because they would not start.
func (d *decision) holdByLimits() {
	set := &d.in.Set
	desired, done := 0, 0
	for i := range d.in.Nodes {
		n := &d.in.Nodes[i]
		hold, counts := d.classify(n)
		d.holds[i] = hold
		if n.Fit == MustRun && !n.Gone {
			desired++
			if counts {
				done++
			}
		}
	}
	kept := set.Partition.Down(desired)
	if kept == 0 {
		d.admit(WaitProgressive, math.MaxInt, true)
		d.admit(WaitPartition, math.MaxInt, true)
		return
	}
	// New nodes come before old pods, and in ascending order also when the update is not.
	free := d.admit(WaitProgressive, desired-kept-done, false)
	if set.Descending {
		d.admitFromTheEnd(free)
	} else {
		d.admit(WaitPartition, free, false)
	}
}

// admit lifts a hold from as many nodes as are free, in ascending order, and returns how many are free then.
// The partition counts the desired nodes; others (all) are released only if it keeps none.
func (d *decision) admit(hold VerdictKind, free int, all bool) int {
	for i := 0; i < len(d.holds) && free > 0; i++ {
		if d.holds[i] == hold && (all || d.in.Nodes[i].Fit == MustRun && d.gateOf(i) == notHeld) {
			d.holds[i] = notHeld
			free--
		}
	}
	return free
}

func (d *decision) admitFromTheEnd(free int) {
	for i := len(d.holds) - 1; i >= 0 && free > 0; i-- {
		if d.holds[i] == WaitPartition && d.in.Nodes[i].Fit == MustRun && d.gateOf(i) == notHeld {
			d.holds[i] = notHeld
			free--
		}
	}
}

// classify returns what holds a node if it is not released, and whether it counts as a node that runs the
// wanted revision or is about to: with a live pod of it, in the middle of its update, or new. (A pod that is
// preparing to be deleted counts as in the middle of its update whatever it was prepared for, because that is
// not recorded.)
func (d *decision) classify(n *Node) (hold VerdictKind, counts bool) {
	if n.Gone || n.Fit != MustRun && n.Fit != MayStay {
		return notHeld, false
	}
	begun, old := d.progressOf(n)
	switch {
	case begun:
		return notHeld, true
	case old && d.keepsOnly(n):
		return WaitEligible, false
	case old:
		return d.firstLimit(n), false
	case n.Fit != MustRun:
		return notHeld, false
	case d.in.Set.ExternalController:
		return notHeld, true // another controller creates the pod, of the newest revision
	case !d.inHistory(n.Last):
		if d.in.Set.Progressive {
			return WaitProgressive, false
		}
		return notHeld, true
	case n.Last == d.in.Set.Update:
		return notHeld, true
	default:
		return d.firstLimit(n), false
	}
}

// progressOf reports whether a node has a live pod of the wanted revision or is in the middle of its update, and whether it has an old pod otherwise.
func (d *decision) progressOf(n *Node) (begun, old bool) {
	for i := range n.Pods {
		p := &n.Pods[i]
		switch {
		case p.Deleting:
		case p.Revision == d.in.Set.Update:
			return true, old
		case p.Phase.Terminal():
		case p.preparing() && !p.Evicted || p.InPlace == InPlaceMarked && !d.keepsOnly(n):
			return true, old
		default:
			old = true
		}
	}
	return false, old
}

// keepsOnly reports whether a node only may keep its pod, and the set updates no such node.
func (d *decision) keepsOnly(n *Node) bool {
	return n.Fit == MayStay && d.in.Set.EligibleOnly && !n.Emptied
}

// firstLimit returns the first limit of the set that prevents the update of a node.
func (d *decision) firstLimit(n *Node) VerdictKind {
	switch {
	case d.in.Set.Paused:
		return WaitPaused
	case d.in.Set.Selective && !n.Selected:
		return WaitSelector
	default:
		return WaitPartition
	}
}

func (d *decision) inHistory(revision int) bool {
	return revision >= 0 && revision < len(d.in.Revisions)
}

// hold returns what holds a node, or notHeld. Where only a policy can hold nodes back, this is evaluated here, so that a healthy node costs nothing.
func (d *decision) hold(i int) VerdictKind {
	if d.holds == nil && !d.gating {
		return notHeld
	}
	return d.heldBy(i)
}

// heldBy is hold for a set with limits or a policy. It is a function of its own so that hold is small enough to be inlined.
func (d *decision) heldBy(i int) VerdictKind {
	switch {
	case d.holds != nil:
		return d.holds[i]
	case d.gateOf(i) != notHeld && d.awaitsUpdate(&d.in.Nodes[i]):
		return d.gateOf(i)
	default:
		return notHeld
	}
}

// successor returns the revision of the next pod of a node without one: a held node keeps the revision that
// it had, as long as it is in the history. If it had none and a policy holds it, it gets the revision that
// the policy names.
func (d *decision) successor(t *nodeContext) int {
	switch {
	case t.hold == notHeld:
		return d.in.Set.Update
	case d.inHistory(t.node.Last):
		return t.node.Last
	case d.heldByPolicy(t.index) && d.inHistory(d.in.Gate.Joining):
		return d.in.Gate.Joining
	default:
		return d.in.Set.Update
	}
}
