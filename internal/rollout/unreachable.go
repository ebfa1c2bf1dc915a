// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

// resolution is the resolution of the times that the API server stores.
const resolution = time.Second

// attributeDown determines whether a node that is not ready is charged to an update that leaves such nodes
// out. It is charged (DetailDownAfterUpdate) unless the times prove that no update is the reason why it went
// down.
func (d *decision) attributeDown(t *nodeContext) {
	n := t.node
	switch {
	case d.in.Set.Strategy != RollingUpdate || n.Gone || n.Fit == MustLeave || !d.usable:
		return
	case t.seen == 0 && n.Fit == MustRun:
		t.down = DetailDownAfterUpdate // between delete and create, for all we know
		return
	}
	t.down = DetailDownBefore
	for i := range t.pods {
		t.down = worse(t.down, d.attribute(n, &t.pods[i]))
	}
	if t.down == DetailDownAfterUpdate {
		return
	}
	for i := range t.pods {
		t.earlier = t.earlier || d.attributeEarlier(n, &t.pods[i])
	}
	if t.earlier {
		t.down = DetailDownAfterUpdate
	}
}

// worse returns the answer that counts of two: a charge, or otherwise that the update has touched the node at all.
func worse(a, b Detail) Detail {
	if a == DetailDownAfterUpdate || b == DetailDownBefore {
		return a
	}
	return b
}

// attribute returns what one pod of a node that is not ready shows about the cause. The update has touched the node when it asked for
// the deletion of the old pod, and when it created the current one.
func (d *decision) attribute(n *Node, p *Pod) Detail {
	current := p.Revision == d.in.Set.Update
	switch {
	case p.ignored():
		return DetailDownBefore
	case p.Doubtful, p.InPlace != InPlaceNone, p.preparing() && !p.Evicted, current && d.changesInPlace() && (p.Gate || !d.in.Set.ClosesGate()):
		return DetailDownAfterUpdate // touched without a time
	}
	said := DetailDownBefore
	if p.Deleting && !d.beforeUpdate(p.DeletedAt) {
		said = d.compare(n, p, p.DeletedAt)
	}
	if current && !d.neverReady(n, p) {
		said = worse(said, d.compare(n, p, p.Created))
	}
	return said
}

// attributeEarlier reports whether the update to an earlier version may be the reason why a node is not
// ready. That counts until the wanted version has proved to be harmless: otherwise each of several bad
// versions would have its own budget.
func (d *decision) attributeEarlier(n *Node, p *Pod) bool {
	if p.ignored() {
		return false
	}
	deleted := p.Deleting && d.beforeUpdate(p.DeletedAt) && d.compare(n, p, p.DeletedAt) == DetailDownAfterUpdate
	changed := p.Gate && d.changesInPlace() || d.compare(n, p, p.Created) == DetailDownAfterUpdate
	created := p.Revision != d.in.Set.Update && changed && !d.neverReady(n, p)
	return (deleted || created && !d.trusts(p.Revision)) && !d.trusts(d.in.Set.Update)
}

// beforeUpdate reports whether something happened before the wanted revision was first recorded, so that an earlier one was the reason.
func (d *decision) beforeUpdate(at Time) bool {
	return at != 0 && at.Add(resolution) <= d.in.Revisions[d.in.Set.Update].Created
}

// neverReady reports whether a node has not been ready since it joined, and the pod is the one that it got then. That pod replaced none.
func (d *decision) neverReady(n *Node, p *Pod) bool {
	return n.Joined != 0 && n.Since != 0 && n.Since <= n.Joined.Add(resolution) && p.Created <= n.Joined.Add(d.attributionWindow())
}

func (d *decision) attributionWindow() time.Duration {
	return max(d.in.Set.Unreachable.AttributionWindow, 0)
}

// compare returns whether a node went down within the attribution window of the moment when the update touched it: if that was at 12:00:00
// and the window is 10 minutes, from 11:50:00 to 12:10:00. The window lies on both sides. Node.Since may be of the node's own clock, which may
// be slow. And the old pod was deleted before the current one was created, at a time that is not recorded any more: a network
// agent whose old pod takes its node down when it goes would otherwise be clear of it. Node.Since begins again when a node that was
// unhealthy falls silent; the time since when its pod has not been ready does not.
func (d *decision) compare(n *Node, p *Pod, touched Time) Detail {
	window := d.attributionWindow()
	first := n.Since
	if !p.Ready {
		first = min(first, p.ReadySince) // 0 for one that nothing was ever heard of
	}
	switch {
	case touched == 0 || n.Since == 0:
		return DetailDownAfterUpdate
	case n.Since.Add(window).Add(resolution) <= touched:
		return DetailDownBefore
	case touched.Add(window).Add(resolution) <= first:
		return DetailDownLater
	default:
		return DetailDownAfterUpdate
	}
}

// waitsUnreachable reports whether a node that is left out gets this verdict regardless of the set's limits:
// it is charged, or its pod is being deleted or not available.
func (d *decision) waitsUnreachable(t *nodeContext) bool {
	switch {
	case t.down == NoDetail:
		return false
	case t.down == DetailDownAfterUpdate:
		return true
	case t.running == 0:
		return t.terminating > 0
	default:
		return t.current != nil && !d.serving(t.current)
	}
}
