// SPDX-License-Identifier: Apache-2.0

package rollout

// tally is the update budget while it is being counted.
type budgetUsage struct {
	Budget
	// used counts the charged nodes.
	used int
	// inFlight counts the nodes in the middle of an update: without a running pod, with one of the wanted revision that
	// is not available, with one that is being changed in place, or with a create of which it is not known whether it took effect.
	inFlight int
	// paced counts those of them that count in the pace of the policy.
	paced int
	// available counts the nodes that may run the pod and have one that is available and not in excess.
	available int
	// spare is the number of available pods beyond the desired number that an update with surge may still remove.
	spare int
	// earlier counts the nodes that are charged only for what earlier versions may have done to them; begun those that are ready and
	// have a pod of the wanted revision, or where the plan starts its update, except the untouched ones.
	earlier, begun int
	// starts counts the updates that this plan starts, and taken counts those of them that remove an available pod. Gate limits both.
	starts, taken int
}

// charge returns whether a node uses a slot of the update budget and adds it to the usage. A node that must not run the pod,
// or is gone, is never charged: nothing that happens there affects a node that should run the pod.
func (d *decision) charge(t *nodeContext) bool {
	if !d.usable || d.in.Set.Strategy != RollingUpdate || !d.counts(t) || t.hold == WaitProgressive {
		return false
	}
	if t.node.Fit.known() && t.live() <= 2 && d.serves(&t.podCounts) {
		d.usage.available++
	}
	if d.unfit(t) {
		return false
	}
	flying := t.running == 0 || t.wanted > 0 && !t.ready || t.changing || t.node.Unanswered
	charged := d.overdrawn(t)
	if t.down != NoDetail {
		charged = t.down == DetailDownAfterUpdate
		flying = flying && charged
	}
	if flying {
		d.usage.inFlight++
		if !d.absent(t.index) && !t.vanished {
			d.usage.paced++
		}
	}
	if t.earlier {
		d.usage.earlier++
	}
	if d.in.Set.Unreachable.Skip && t.node.Ready && t.hasRevision(d.in.Set.Update) {
		d.usage.begun++
	}
	if charged {
		d.usage.use(t.node, flying)
	}
	return charged
}

// counts reports whether a node matters to the budget: one that must run a pod, or one that may and does. A
// node that has not been evaluated counts as one of these if it has pods, so that the budget is too small
// rather than too large. With EligibleOnly, a node that may only keep its pod matters if it is not ready and
// an update has begun there, because the update may be the reason.
func (d *decision) counts(t *nodeContext) bool {
	switch {
	case t.node.Gone || t.node.Fit == MustLeave:
		return false
	case d.keepsOnly(t.node):
		return t.seen > 0 && !t.node.Ready && t.hold != WaitEligible
	default:
		return t.node.Fit == MustRun || t.seen > 0
	}
}

// overdrawn is the charge table of the package comment.
func (d *decision) overdrawn(t *nodeContext) bool {
	c := &t.podCounts
	if d.surge {
		if t.node.Unanswered {
			return c.live()+c.preparing > 0
		}
		return c.live()+c.preparing > 1 && !d.goes(c)
	}
	return c.preparing > 0 || c.live() != 1 || c.running != 1 || !d.serving(c.keep)
}

// goes reports whether the old pod of a pair has nothing left to wait for: it is deleted now, or the API server refuses that.
func (d *decision) goes(c *podCounts) bool {
	if c.preparing == 1 {
		return c.live() == 1 && c.waiting == 0 && c.ready // its hook has released it
	}
	return c.live() == 2 && c.preparing == 0 && d.surgeCompleted(c) && c.old.Hook == HookNone
}

// serves reports whether one of the running pods that stay is available.
func (d *decision) serves(c *podCounts) bool {
	return c.ready || c.old != nil && d.serving(c.old)
}

func (t *budgetUsage) use(n *Node, flying bool) {
	t.used++
	switch {
	case !n.Ready:
		t.UsedByUnreachable++
	case flying:
		t.UsedByUpdate++
	default:
		t.UsedByOthers++
	}
}

// free returns how many more nodes an update may take from an available old pod to none (or to two pods, with surge).
func (t *budgetUsage) free() int { return t.Limit - t.used }

// limit resolves the budget of a rolling update once the number of desired nodes is known.
func (d *decision) limit() Budget {
	b := d.usage.Budget
	desired := d.status.Desired
	if d.surge {
		b.Surge, b.Limit = true, d.in.Set.MaxSurge.Of(desired)
		return b
	}
	b.Limit = d.in.Set.MaxUnavailable.Of(desired)
	if b.Limit == 0 && desired > 0 {
		// Neither budget allows anything, so the update would never end. The API server refuses this; if such a set
		// exists nevertheless, upstream updates one node at a time.
		b.Limit = 1
	}
	return b
}
