// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"
)

// The part of the dumb decision that is about images and nodes that are far away.

// imageless is whether a node is without images that it would need for its update.
func (d *dumb) imageless(f facts) bool {
	needed := f.Fit == MustRun || d.inPlace() && d.whyNot(f.old[0]) == NoDetail
	return f.ImageWait && needed && f.old[0].InPlace == InPlaceNone && (f.ImageUntil == 0 || f.ImageUntil > d.s.Now)
}

// inPlace is whether pods of the set may be changed in place.
func (d *dumb) inPlace() bool { return d.s.Set.InPlace && !d.surge() && !d.s.Set.Guest }

// handsTied is whether a guest could not take an old pod away with a delete alone.
func (d *dumb) handsTied(f facts) bool {
	return d.s.Set.Guest && len(f.old) > 0 && (f.old[0].Hook != HookNone || f.old[0].InPlace != InPlaceNone)
}

// elsewhere is whether there is something to do on a node that is not the business of a guest.
func (d *dumb) elsewhere(f facts) bool {
	unbound := filter(f.pods, func(p Pod) bool { return !p.Deleting && !p.Scheduled })
	switch {
	case !d.s.Set.Guest || !d.known():
		return false
	case f.Gone:
		return len(unbound) > 0
	case f.Fit == MustLeave:
		return len(f.live)+len(f.leaving) > 0
	case !d.mayRun(f):
		return false
	default:
		empty := len(f.pods) == 0 && f.Fit == MustRun
		return empty || len(f.live) > 1 || len(f.live) > len(f.running) || len(f.leaving) > 0 || f.back != ""
	}
}

// absence says how a node that is not ready stands to an update that leaves it out. Every pod has its say; the worst counts.
func (d *dumb) absence(f facts) Detail {
	rolling := d.s.Set.Strategy == RollingUpdate && !f.Gone && f.Fit != MustLeave
	if f.Ready || !d.s.Set.Unreachable.Skip || !rolling {
		return NoDetail
	}
	if f.Fit == MustRun && len(f.pods) == 0 {
		return DetailDownAfterUpdate
	}
	said := map[Detail]bool{}
	for _, p := range f.pods {
		inPlace := p.InPlace != InPlaceNone || d.inPlace() && p.Gate && p.Revision == d.s.Set.Update
		if inPlace || p.Doubtful || preparing(p) && !p.Evicted {
			said[DetailDownAfterUpdate] = true
		}
		if p.Deleting {
			said[d.interval(f, p, p.DeletedAt)] = true
		}
		if p.Revision == d.s.Set.Update {
			said[d.interval(f, p, p.Created)] = true
		}
	}
	for _, detail := range []Detail{DetailDownAfterUpdate, DetailDownLater} {
		if said[detail] {
			return detail
		}
	}
	return DetailDownBefore
}

// interval compares the time in which a node must have gone down, as far as a pod tells, with the time at which the update touched it.
func (d *dumb) interval(f facts, p Pod, touched Time) Detail {
	from, to := f.Since, f.Since
	if !p.Ready && p.ReadySince < from {
		from = p.ReadySince
	}
	far := time.Second
	if d.s.Set.Unreachable.Blame > 0 {
		far += d.s.Set.Unreachable.Blame
	}
	switch {
	case touched == 0 || f.Since == 0:
		return DetailDownAfterUpdate
	case touched.Sub(to) >= far:
		return DetailDownBefore
	case from.Sub(touched) >= far:
		return DetailDownLater
	default:
		return DetailDownAfterUpdate
	}
}

// announce lists what all pods are to say that say something else, and puts into the plan what has room; cut is whether not all has.
func (d *dumb) announce(p *Plan) (cut bool) {
	for _, f := range d.nodes {
		acts := slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Node == f.index })
		for _, pod := range f.pods {
			old, right := pod.Revision != d.s.Set.Update, Announced{}
			if d.s.Set.Announce {
				right = Announced{Said: true, Old: old, Revision: d.s.Set.Update}
			}
			wrong := pod.Announced.Said != right.Said || right.Said && pod.Announced != right
			if acts || !d.mayRun(f) || pod.Deleting || !wrong {
				continue
			}
			p.Announcements = append(p.Announcements, Announcement{Node: f.index, Pod: pod.Name, UID: pod.UID, Old: right.Old, Withdraw: !right.Said})
		}
	}
	room := d.burst() - len(p.Actions)
	cut = len(p.Announcements) > room
	p.Announcements = p.Announcements[:min(room, len(p.Announcements))]
	return cut
}
