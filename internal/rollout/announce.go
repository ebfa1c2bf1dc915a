// SPDX-License-Identifier: Apache-2.0

package rollout

// stale reports whether the announcement of a pod about a newer revision is wrong.
func (d *decision) stale(i int, p *Pod) bool {
	if !d.in.Set.Announce {
		return p.Announced.Said // most sets announce nothing, and this is asked for each pod
	}
	return !d.announcesWhatIsDue(i, p)
}

func (d *decision) announcesWhatIsDue(i int, p *Pod) bool {
	due := d.due(i, p)
	return due.Said == p.Announced.Said && (!due.Said || p.Announced == due)
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

// due returns what a pod should announce. If a policy holds the node, the pod does not announce a newer
// revision, unless it has announced this revision before: then its update has already started. It takes that back if the revision has failed or was rejected:
// no further node gets it.
func (d *decision) due(i int, p *Pod) Announced {
	update := d.in.Set.Update
	switch {
	case !d.in.Set.Announce:
		return Announced{}
	case p.Revision == update || !d.heldByPolicy(i) || p.Announced.Old && int(p.Announced.Revision) == update && !d.isBad(i):
		return Announced{Said: true, Old: p.Revision != update, Revision: int32(update)}
	case d.inHistory(p.Revision):
		return Announced{Said: true, Revision: int32(p.Revision)}
	default:
		return Announced{}
	}
}

// isBad reports whether the policy holds a node because the revision has failed or was rejected.
func (d *decision) isBad(i int) bool { return d.in.Gate.Halts(i) }

// announcements returns the announcements that pods need, as far as the plan has room for them. Nodes with an
// action in this plan are skipped, because an announcement there may be wrong in a moment. So are nodes with
// a write that was refused a short time ago.
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
	return Announcement{Node: node, Pod: p.Name, UID: p.UID, Old: due.Old, Withdraw: !due.Said, Revision: int(due.Revision)}
}
