// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"
)

// The part of the dumb decision that is about images and nodes that are far away.

// imageless is whether a node is without images that it would need for its update.
func (d *dumb) imageless(f facts) bool {
	changed := d.inPlace() && d.whyNot(f, f.old[0]) == NoDetail
	needed := changed || f.Fit == MustRun && !d.s.Set.ImagesInPlace
	return f.ImageWait && needed && f.old[0].InPlace == InPlaceNone && (f.ImageUntil == 0 || f.ImageUntil > d.s.Now)
}

// inPlace is whether pods of the set may be changed in place.
func (d *dumb) inPlace() bool { return d.s.Set.InPlace && !d.surge() && !d.s.Set.ExternalController }

// handsTied is whether an external set could not take an old pod away with a delete alone.
func (d *dumb) handsTied(f facts) bool {
	return d.s.Set.ExternalController && len(f.old) > 0 && (f.old[0].Hook != HookNone || f.old[0].InPlace != InPlaceNone)
}

// elsewhere is whether there is something to do on a node that is not the business of an external set.
func (d *dumb) elsewhere(f facts) bool {
	unbound := filter(f.pods, func(p Pod) bool { return !p.Deleting && !p.Scheduled })
	switch {
	case !d.s.Set.ExternalController || !d.known():
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
	rolling := d.known() && d.s.Set.Strategy == RollingUpdate && !f.Gone && f.Fit != MustLeave
	if f.Ready || !d.s.Set.Unreachable.Skip || !rolling {
		return NoDetail
	}
	if f.Fit == MustRun && len(f.pods) == 0 {
		return DetailDownAfterUpdate
	}
	said := map[Detail]bool{}
	if !d.spotless && d.sharesBlame(f) {
		said[DetailDownAfterUpdate] = true
	}
	for _, p := range f.pods {
		inPlace := p.InPlace != InPlaceNone || d.inPlace() && (p.Gate || !d.closesGate()) && p.Revision == d.s.Set.Update
		if inPlace || p.Doubtful || preparing(p) && !p.Evicted {
			said[DetailDownAfterUpdate] = true
		}
		if p.Deleting && !d.ofEarlierUpdate(p) {
			said[d.interval(f, p, p.DeletedAt)] = true
		}
		if p.Revision == d.s.Set.Update && !d.neverUp(f, p) {
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

// window is how far a touch and its consequence may lie apart.
func (d *dumb) window() time.Duration { return max(0, d.s.Set.Unreachable.AttributionWindow) }

// ofEarlierUpdate is whether a pod was deleted before there was the wanted revision.
func (d *dumb) ofEarlierUpdate(p Pod) bool {
	return p.Deleting && p.DeletedAt != 0 && d.s.Revisions[d.s.Set.Update].Created >= p.DeletedAt.Add(time.Second)
}

// neverUp is whether a pod came with its node, which has not been ready since.
func (d *dumb) neverUp(f facts, p Pod) bool {
	if f.Joined == 0 || f.Since == 0 {
		return false
	}
	return f.Joined.Add(time.Second) >= f.Since && f.Joined.Add(d.window()) >= p.Created
}

// harmless is whether a pod of a revision has served on a ready node for the whole window, or the revision is the first one that there was.
func (d *dumb) harmless(revision int) bool {
	known := revision >= 0 && revision < len(d.s.Revisions)
	if known && revision != d.s.Set.Update && d.oldestRevision(revision) {
		return true
	}
	for _, f := range d.nodes {
		for _, p := range f.Pods {
			same := p.Revision == revision || !known && (p.Revision < 0 || p.Revision >= len(d.s.Revisions))
			long := p.ReadySince.Add(d.window()) <= d.s.Now && p.Created.Add(d.window()) <= d.s.Now
			if same && long && d.vouches(f, p) {
				return true
			}
		}
	}
	return false
}

// vouches is whether a pod speaks for its revision, be it for a moment only.
func (d *dumb) vouches(f facts, p Pod) bool {
	return f.Ready && !p.Deleting && p.ReadySince != 0 && d.serving(p)
}

func (d *dumb) oldestRevision(revision int) bool {
	r := d.s.Revisions[revision]
	for _, other := range d.s.Revisions {
		before := other.Created != 0 && (r.Created == 0 || other.Created < r.Created)
		if before || other.Created == r.Created && other.Number < r.Number {
			return false
		}
	}
	return true
}

// sharesBlame is whether an update to an earlier version may have taken a node down, and nothing speaks for the wanted version yet.
func (d *dumb) sharesBlame(f facts) bool {
	if d.harmless(d.s.Set.Update) {
		return false
	}
	for _, p := range f.pods {
		inPlace := d.inPlace() && p.Gate
		suspect := p.Revision != d.s.Set.Update && !d.harmless(p.Revision) && !d.neverUp(f, p)
		if suspect && (inPlace || d.interval(f, p, p.Created) == DetailDownAfterUpdate) {
			return true
		}
		if d.ofEarlierUpdate(p) && d.interval(f, p, p.DeletedAt) == DetailDownAfterUpdate {
			return true
		}
	}
	return false
}

// earlierOnly is whether a node is charged for nothing but what an earlier version may have done.
func (d *dumb) earlierOnly(f facts) bool {
	if d.absence(f) != DetailDownAfterUpdate || len(f.pods) == 0 && f.Fit == MustRun || !d.counted(f) {
		return false
	}
	blind := *d
	blind.spotless = true
	return blind.absence(f) != DetailDownAfterUpdate
}

// probe is whether one node may be updated beyond the budget.
func (d *dumb) probe() bool {
	began := func(f facts) bool {
		for _, p := range f.pods {
			if p.Revision == d.s.Set.Update && f.Ready && d.counted(f) {
				return true
			}
		}
		return false
	}
	return d.count(d.charged) == d.limit() && d.count(d.earlierOnly) > 0 && d.count(began) == 0
}

// trial is when the wanted version will have shown that it does no harm, if that is what nodes wait for; 0 if not.
func (d *dumb) trial() Time {
	at := Time(0)
	if d.count(d.earlierOnly) == 0 {
		return 0
	}
	for _, f := range d.nodes {
		for _, p := range f.Pods {
			if t := max(p.ReadySince, p.Created).Add(d.window()); p.Revision == d.s.Set.Update && d.vouches(f, p) && (at == 0 || t < at) {
				at = t
			}
		}
	}
	return at
}

// interval compares the time in which a node must have gone down, as far as a pod tells, with the time at which the update touched it.
func (d *dumb) interval(f facts, p Pod, touched Time) Detail {
	from, to := f.Since, f.Since
	if !p.Ready && p.ReadySince < from {
		from = p.ReadySince
	}
	far := time.Second
	if d.s.Set.Unreachable.AttributionWindow > 0 {
		far += d.s.Set.Unreachable.AttributionWindow
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

// wrong is whether a pod of a node is to say something else than it does.
func (d *dumb) wrong(f facts, p Pod) bool {
	right := d.right(f, p)
	return !p.Deleting && (p.Announced.Said != right.Said || right.Said && p.Announced != right)
}

// announce lists what all pods are to say that say something else, and puts into the plan what has room; cut is whether not all has, and
// later when the first of those may be tried that wait because a write for their node was refused.
func (d *dumb) announce(p *Plan) (cut bool, later Time) {
	for _, f := range d.nodes {
		acts := slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Node == f.index })
		for _, pod := range f.pods {
			right := d.right(f, pod)
			if acts || !d.mayRun(f) || !d.wrong(f, pod) {
				continue
			}
			if d.barred(f) {
				if later == 0 || f.Refusal.RetryAt < later {
					later = f.Refusal.RetryAt
				}
				continue
			}
			p.Announcements = append(p.Announcements, Announcement{Node: f.index, Pod: pod.Name, UID: pod.UID, Old: right.Old, Withdraw: !right.Said, Revision: int(max(right.Revision, 0))})
		}
	}
	room := d.burst() - len(p.Actions)
	cut = len(p.Announcements) > room
	p.Announcements = p.Announcements[:min(room, len(p.Announcements))]
	return cut, later
}
