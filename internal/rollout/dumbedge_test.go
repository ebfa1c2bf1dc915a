// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

// The part of the dumb decision that is about images and nodes that are far away.

// imageless is whether a node is without images that it would need for its update.
func (d *dumb) imageless(f facts) bool {
	needed := f.Fit == MustRun || d.s.Set.InPlace && !d.surge() && d.whyNot(f.old[0]) == NoDetail
	return f.ImageWait && needed && f.old[0].InPlace == InPlaceNone && (f.ImageUntil == 0 || f.ImageUntil > d.s.Now)
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
		inPlace := p.InPlace != InPlaceNone || d.s.Set.InPlace && !d.surge() && p.Gate && p.Revision == d.s.Set.Update
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
