// SPDX-License-Identifier: Apache-2.0

package rollout

// stale is whether a pod says something else than it should of whether there is a newer revision.
func (d *decision) stale(p *Pod) bool {
	if !d.in.Set.Announce {
		return p.Announced.Said
	}
	return p.Announced != Announced{Said: true, Old: p.Revision != d.in.Set.Update, Revision: d.in.Set.Update}
}

// announcements are what the pods are to say, as much of it as the plan has room for. Nodes on which something is done now are passed
// over: what the pods there say may be wrong in a moment. So are nodes for which a write was refused a short time ago.
func (d *decision) announcements(room int) []Announcement {
	if !d.usable || !d.unsaid {
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
			if p.Deleting || !d.stale(p) {
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
	a := Announcement{Node: node, Pod: p.Name, UID: p.UID, Withdraw: !d.in.Set.Announce}
	a.Old = !a.Withdraw && p.Revision != d.in.Set.Update
	return a
}
