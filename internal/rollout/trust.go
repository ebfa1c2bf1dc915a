// SPDX-License-Identifier: Apache-2.0

package rollout

import "cmp"

// trust records which revisions are known to be harmless, for a set that leaves out nodes that are not ready. A revision is
// trusted when a pod of it has been available on a ready node for the attribution window. So is the first one: it replaced no other.
//
// The window is measured as minReadySeconds is: from the times that kubelets and the API server wrote, by the clock of the manager. A clock that is fast by
// the whole window trusts a version as soon as a pod of it is available. That is accepted: the pod must be available all the same, and a version that is trusted
// too early gives the next version a budget of its own, which one version never exceeds. Counting only what this process has observed would need memory, which
// each failover loses; so each failover would hold an update that needs trust for another window.
type trust struct {
	known bool
	// revisions has one entry for each revision, and one in front for pods of which the revision is not known.
	revisions []bool
	// at is when the wanted revision will be trusted if nothing happens; 0 when no pod of it is available.
	at Time
}

// trusts reports whether a revision is known to be harmless. All pods are evaluated once, and only when needed.
func (d *decision) trusts(revision int) bool {
	if !d.trust.known {
		d.computeTrust()
	}
	return d.trust.revisions[d.trustIndex(revision)]
}

// trustIndex is where trust keeps a revision.
func (d *decision) trustIndex(revision int) int {
	if !d.inHistory(revision) {
		return 0
	}
	return revision + 1
}

func (d *decision) computeTrust() {
	d.trust = trust{known: true, revisions: make([]bool, len(d.in.Revisions)+1)}
	first := firstOf(d.in.Revisions)
	for i := range d.in.Revisions {
		d.trust.revisions[i+1] = i == first && i != d.in.Set.Update
	}
	for i := range d.in.Nodes {
		n := &d.in.Nodes[i]
		for k := range n.Pods {
			if p := &n.Pods[k]; n.Ready && !p.Deleting && d.serving(p) && p.ReadySince != 0 {
				d.markTrusted(p)
			}
		}
	}
}

// firstOf is the revision that was recorded first, of those with the same time the one with the lowest number; -1 if there is none. The API server's
// times have seconds, and all revisions of a backup that is applied get the same one. Only one of them replaced no other, and each of the rest
// would get a budget of its own. A time that is not known is later than all others.
func firstOf(revisions []Revision) int {
	first := -1
	for i := range revisions {
		if first < 0 || revisions[i].earlier(&revisions[first]) {
			first = i
		}
	}
	return first
}

func (r *Revision) earlier(other *Revision) bool {
	if known := r.Created != 0; known != (other.Created != 0) {
		return known
	}
	return cmp.Or(cmp.Compare(r.Created, other.Created), cmp.Compare(r.Number, other.Number)) < 0
}

// markTrusted takes down that a pod is available, and for how long.
func (d *decision) markTrusted(p *Pod) {
	at := max(p.ReadySince, p.Created).Add(d.attributionWindow())
	switch {
	case at <= d.in.Now:
		d.trust.revisions[d.trustIndex(p.Revision)] = true
	case p.Revision == d.in.Set.Update && (d.trust.at == 0 || at < d.trust.at):
		d.trust.at = at
	}
}

// updatesLeft is how many available old pods the update may still replace. Where the nodes that earlier versions may have taken down use up the
// whole budget, a version that has not begun anywhere may be tried on one node more: it may be the harmless one.
func (d *decision) updatesLeft() int {
	free := d.usage.free()
	if free == 0 && d.usage.earlier > 0 && d.usage.begun+d.untouched == 0 {
		return 1
	}
	return free
}
