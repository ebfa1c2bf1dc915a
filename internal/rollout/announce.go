// SPDX-License-Identifier: Apache-2.0

package rollout

// stale reports whether a pod says something else than it should of whether there is a newer revision.
func (d *decision) stale(i int, p *Pod) bool {
	due := d.due(i, p)
	return due.Said != p.Announced.Said || due.Said && p.Announced != due
}

// staleOn is stale for any pod of a node that stays.
func (d *decision) staleOn(i int) bool {
	pods := d.in.Nodes[i].Pods
	for j := range pods {
		if !pods[j].Deleting && d.stale(i, &pods[j]) {
			return true
		}
	}
	return false
}

// due is what a pod should say. Where a policy holds the node back, it does not say that there is a newer revision, unless it has announced this one
// before: that was its start.
func (d *decision) due(i int, p *Pod) Announced {
	update := d.in.Set.Update
	switch {
	case !d.in.Set.Announce:
		return Announced{}
	case p.Revision == update || !d.heldByPolicy(i) || p.Announced.Old && p.Announced.Revision == update:
		return Announced{Said: true, Old: p.Revision != update, Revision: update}
	case d.inHistory(p.Revision):
		return Announced{Said: true, Revision: p.Revision}
	default:
		return Announced{}
	}
}

// announcements are what the pods are to say, as much of it as the plan has room for. Nodes on which something is done now are passed
// over: what the pods there say may be wrong in a moment. So are nodes for which a write was refused a short time ago.
func (d *decision) announcements(room int) []Announcement {
	if !d.usable || !d.announcementsDue {
		return nil
	}
	var out []Announcement
	for i := range d.in.Nodes {
		n := &d.in.Nodes[i]
		if n.Gone || n.Fit != MustRun && n.Fit != MayStay || d.verdicts[i].Kind.Acts() {
			continue
		}
		pods := d.byAge(n.Pods)
		for j := range pods {
			p := &pods[j]
			if p.Deleting || !d.stale(i, p) {
				continue
			}
			if d.turnOf(n) == barred {
				d.wakeAt(n.Refusal.RetryAt)
				continue
			}
			if len(out) >= room {
				d.wakeAt(d.in.Now)
				return out
			}
			out = append(out, d.announcement(i, p))
		}
	}
	return out
}

func (d *decision) announcement(node int, p *Pod) Announcement {
	due := d.due(node, p)
	return Announcement{Node: node, Pod: p.Name, UID: p.UID, Old: due.Old, Withdraw: !due.Said, Revision: due.Revision}
}
