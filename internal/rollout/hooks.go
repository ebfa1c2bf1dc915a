// SPDX-License-Identifier: Apache-2.0

package rollout

// preparing reports whether a pod has been prepared to be deleted.
func (p *Pod) preparing() bool { return p.Hook >= HookWaiting }

// startDelete starts the deletion of a pod: the pod is prepared if its hook applies, and otherwise deleted.
func (t *nodeContext) startDelete(p *Pod, reason VerdictKind) Action {
	if p.Hook == HookArmed {
		a := t.act(Prepare, p, Preparing)
		a.Evict = t.node.Fit == MustLeave
		return a
	}
	return t.act(Delete, p, reason)
}

// countPreparing counts a pod that is preparing. It is on its way out, like a terminating one, unless it turns out to be wanted
// again: the oldest that could be is remembered, a current one before an old one.
func (d *decision) countPreparing(t *nodeContext, p *Pod) {
	c := &t.podCounts
	c.preparing++
	if p.Hook == HookWaiting {
		c.waiting++
	}
	wanted := p.Revision == d.in.Set.Update || p.Evicted || d.in.Set.Strategy != RollingUpdate || t.mayNotGo(p)
	better := c.restored == nil || c.restored.Revision != d.in.Set.Update && p.Revision == d.in.Set.Update
	if better && !p.Phase.Terminal() && !d.stuck(t, p) && wanted {
		c.restored = p
	}
}

// mayNotGo reports whether the API server has refused to delete a prepared pod.
func (t *nodeContext) mayNotGo(p *Pod) bool {
	return p.Hook == HookReleased && t.node.Refusal != nil && t.node.Refusal.Of == Delete
}

// decideRestore decides whether a preparing pod is wanted again: the template has been changed back to its revision, its node
// may run the pod again, or its delete was refused. It is not wanted if another pod has already replaced it. Otherwise an old pod that was prepared for an
// update is not restored while the strategy is RollingUpdate: an update that has begun continues.
func (d *decision) decideRestore(t *nodeContext) {
	c := &t.podCounts
	p := c.restored
	if p == nil {
		return
	}
	taken := c.running > 0
	if d.surge {
		taken = c.current != nil || p.Revision != d.in.Set.Update && c.old != nil
	}
	if taken || t.node.Gone || t.node.Fit != MustRun && t.node.Fit != MayStay {
		c.restored = nil
		return
	}
	c.preparing--
	if p.Hook == HookWaiting {
		c.waiting--
	}
	d.countLive(c, p)
}

// releasedReason returns why a pod is deleted that its hook has released. What it was prepared for may have changed since.
func (d *decision) releasedReason(t *nodeContext, p *Pod) VerdictKind {
	switch {
	case p.Phase == Failed:
		return ReplacingFailed
	case p.Phase == Succeeded:
		return ReplacingEnded
	case d.surge && t.current != nil && p.Revision != d.in.Set.Update:
		return FinishingSurge
	case t.running > 0:
		return RemovingExcess
	case d.surge && t.node.Fit == MayStay:
		return Removing
	default:
		return Recreating
	}
}
