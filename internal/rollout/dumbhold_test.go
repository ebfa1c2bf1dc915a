// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"
)

// The part of the dumb decision that is about limits, hooks and changes in place.

// preparing is whether a pod is on its way out through its hook.
func preparing(p Pod) bool { return p.Hook != HookNone && p.Hook != HookArmed }

// ready is whether a pod is ready for the purposes of the core.
func ready(p Pod) bool { return p.Ready && p.InPlace == InPlaceNone }

func (d *dumb) serving(p Pod) bool { return d.available(p) && !preparing(p) && !p.Doubtful }

func (d *dumb) anyServing(pods []Pod) bool { return len(filter(pods, d.serving)) > 0 }

// young is whether a pod is ready, and nothing but the clock says that it is not available.
func (d *dumb) young(p Pod) bool { return ready(p) && !d.available(p) && p.ReadySince != 0 }

// early is whether the old pod of a node is young, and the budget is overdrawn.
func (d *dumb) early(f facts) bool {
	return len(filter(f.old, d.young)) > 0 && d.count(d.charged) > d.limit()
}

// idle is whether no old pod serves. Nobody knows whether a doubtful one does, and there a budget is rather too small than too large.
func (d *dumb) idle(f facts) bool {
	perhaps := func(p Pod) bool { return (d.available(p) || d.young(p)) && !preparing(p) }
	if d.surge() {
		return len(filter(f.old, perhaps)) == 0
	}
	return !d.anyServing(f.old)
}

// restored finds the preparing pod that is wanted again.
func (d *dumb) restored(f facts) (Pod, bool) {
	wanted := filter(f.pods, func(p Pod) bool {
		return !p.Deleting && preparing(p) && p.Phase != Failed && p.Phase != Succeeded && !d.hopeless(f, p) &&
			(p.Revision == d.s.Set.Update || p.Evicted || d.s.Set.Strategy != RollingUpdate || protected(f, p))
	})
	slices.SortStableFunc(wanted, func(a, b Pod) int {
		return number(a.Revision != d.s.Set.Update) - number(b.Revision != d.s.Set.Update)
	})
	beside := func(p Pod) bool { // with surge a pod of the wanted revision may stand beside an old one
		return d.surge() && len(wanted) > 0 && wanted[0].Revision == d.s.Set.Update && p.Revision != d.s.Set.Update
	}
	inPlace := filter(f.pods, func(p Pod) bool {
		return !p.Deleting && !preparing(p) && p.Phase != Failed && p.Phase != Succeeded && !beside(p)
	})
	if len(wanted) == 0 || len(inPlace) > 0 || !d.mayRun(f) {
		return Pod{}, false
	}
	return wanted[0], true
}

// protected is whether a pod that was prepared may not be deleted.
func protected(f facts, p Pod) bool {
	return f.Refusal != nil && f.Refusal.Of == Delete && p.Hook == HookReleased
}

func (d *dumb) optional(f facts) bool { return f.Fit == MayStay && d.s.Set.EligibleOnly }

// counts is whether a node runs the wanted revision or is about to.
func (d *dumb) counts(f facts) bool {
	live := filter(f.Pods, func(p Pod) bool { return !p.Deleting })
	begun := filter(live, func(p Pod) bool {
		running := p.Phase != Failed && p.Phase != Succeeded
		return p.Revision == d.s.Set.Update || running && (preparing(p) && !p.Evicted || p.InPlace == InPlaceMarked && !d.optional(f))
	})
	return len(begun) > 0 || d.bare(f) && (d.s.Set.ExternalController || d.remembers(f) && f.Last == d.s.Set.Update)
}

// bare is whether a node that has to run a pod has none that runs.
func (d *dumb) bare(f facts) bool {
	return f.Fit == MustRun && len(filter(f.Pods, func(p Pod) bool { return !p.Deleting && p.Phase != Failed && p.Phase != Succeeded })) == 0
}

func (d *dumb) remembers(f facts) bool { return f.Last >= 0 && f.Last < len(d.s.Revisions) }

// fresh is whether a node never had a pod, as far as is known.
func (d *dumb) fresh(f facts) bool { return d.bare(f) && !d.counts(f) && !d.remembers(f) }

// holds says for each node what holds it back. It lists the nodes in the order in which they may go on and cuts the list.
func (d *dumb) holds() map[int]VerdictKind {
	out := map[int]VerdictKind{}
	if d.known() && d.s.Set.Strategy == RollingUpdate {
		out = d.limits()
	}
	for _, f := range d.nodes {
		gate, hold := d.gate(f), out[f.index]
		waits := d.mayRun(f) && !d.counts(f) && (f.Fit == MustRun || !d.bareOf(f))
		if gate != 0 && waits && (hold == 0 || hold == WaitPartition) {
			out[f.index] = gate
		}
	}
	return out
}

// gate is what a policy holds a node back for.
func (d *dumb) gate(f facts) VerdictKind {
	g := d.s.Gate
	if g == nil || f.index >= len(g.Holds) || d.s.Set.Strategy != RollingUpdate && !d.s.Set.Announce {
		return 0
	}
	return g.Holds[f.index]
}

// limits says for each node which limit of the set holds it back.
func (d *dumb) limits() map[int]VerdictKind {
	out := map[int]VerdictKind{}
	keep := d.kept()
	var done, fresh, olds []int
	for _, f := range d.nodes {
		switch {
		case !d.mayRun(f) || f.Fit == MayStay && d.bareOf(f):
		case d.counts(f) || d.fresh(f) && !d.s.Set.Progressive:
			if f.Fit == MustRun {
				done = append(done, f.index)
			}
		case d.fresh(f):
			fresh = append(fresh, f.index)
		case f.Fit == MayStay && d.s.Set.EligibleOnly:
			out[f.index] = WaitEligible
		case d.s.Set.Paused:
			out[f.index] = WaitPaused
		case d.s.Set.Selective && !f.Selected:
			out[f.index] = WaitSelector
		case f.Fit == MayStay && keep > 0:
			out[f.index] = WaitPartition
		case f.Fit == MustRun:
			olds = append(olds, f.index)
		}
	}
	if keep == 0 {
		return out
	}
	if d.s.Set.Descending {
		slices.Reverse(olds)
	}
	room := max(0, d.desired()-keep-len(done))
	for i, node := range append(fresh, olds...) {
		free := d.gate(d.nodes[node]) == 0
		switch {
		case room > 0 && free:
			room--
		case i < len(fresh):
			out[node] = WaitProgressive
		default:
			out[node] = WaitPartition
		}
	}
	return out
}

// bareOf is whether a node has no running pod, whatever its fit.
func (d *dumb) bareOf(f facts) bool {
	f.Fit = MustRun
	return d.bare(f)
}

// kept resolves the partition by counting up; more than all is all.
func (d *dumb) kept() int {
	q := d.s.Set.Partition
	if q.Value <= 0 {
		return 0
	}
	if !q.Percent {
		return q.Value
	}
	n, desired := 0, d.desired()
	for n < desired && (n+1)*100 <= min(q.Value, 100)*desired {
		n++
	}
	return n
}

// successor is what a missing pod is created from.
func (d *dumb) successor(f facts) int {
	if f.hold != 0 && d.remembers(f) {
		return f.Last
	}
	if g := d.s.Gate; f.hold != 0 && f.hold == d.gate(f) && g.Joining >= 0 && g.Joining < len(d.s.Revisions) {
		return g.Joining
	}
	return d.s.Set.Update
}

// starts is how an update takes an old pod away, without surge.
func (d *dumb) starts(f facts, p Pod) []Action {
	why := d.whyNot(f, p)
	if d.inPlace() && why == NoDetail {
		if !d.closesGate() {
			return []Action{d.patched(f, p)}
		}
		mark := Action{Kind: Mark, Node: f.index, Pod: p.Name, UID: p.UID, Revision: p.Revision, Reason: UpdatingInPlace}
		if d.s.Set.Grace > 0 {
			return []Action{mark}
		}
		return []Action{mark, d.patched(f, p)}
	}
	a := d.removal(f, p, Recreating)
	a.Detail = why
	return []Action{a}
}

// closesGate is whether a pod is not ready while it is changed in place.
func (d *dumb) closesGate() bool { return d.s.Set.Grace > 0 || d.s.Set.CloseGate }

func (d *dumb) patched(f facts, p Pod) Action {
	return Action{Kind: Patch, Node: f.index, Pod: p.Name, UID: p.UID, Revision: d.s.Set.Update, Reason: UpdatingInPlace}
}

// hopeless is whether a pod is in the middle of a change that never ends, or has taken too long.
func (d *dumb) hopeless(f facts, p Pod) bool {
	changing := p.Stuck != NoDetail && (p.InPlace == InPlacePatched || p.InPlace == InPlaceAnnounced)
	return changing && (p.StuckAt == 0 || f.Ready && d.patience(f, p) <= d.s.Now)
}

// patience is until when a change that may still come to its end is waited for.
func (d *dumb) patience(f facts, p Pod) Time {
	if again := f.Since.Add(30 * time.Second); f.Since <= d.s.Now && again > p.StuckAt {
		return again
	}
	return p.StuckAt
}

// whyNot is why a pod cannot be changed in place although the set asks for it.
func (d *dumb) whyNot(f facts, p Pod) Detail {
	switch {
	case !d.inPlace():
		return NoDetail
	case p.Revision < 0 || p.Revision >= len(d.s.Revisions):
		return DetailNotInHistory
	case !p.Gate && d.closesGate():
		return DetailNoGate
	case d.s.Revisions[p.Revision].InPlace && d.s.Revisions[p.Revision].Resize && p.NoResize:
		return DetailResizeRefused
	case d.s.Revisions[p.Revision].InPlace && d.s.Revisions[p.Revision].InitImages && !d.s.Set.InitImages:
		return DetailInitImage
	case d.s.Revisions[p.Revision].InPlace && d.s.Revisions[p.Revision].Agent && !f.Agent:
		return DetailNoAgent
	case d.s.Revisions[p.Revision].InPlace && d.s.Revisions[p.Revision].Agent && p.Starting && !p.Ready:
		return DetailStarting
	case d.s.Revisions[p.Revision].InPlace:
		return NoDetail
	case d.s.Revisions[p.Revision].Why != NoDetail:
		return d.s.Revisions[p.Revision].Why
	default:
		return DetailTemplate
	}
}

// removal is the first step of a deletion.
func (d *dumb) removal(f facts, p Pod, reason VerdictKind) Action {
	a := Action{Kind: Delete, Node: f.index, Pod: p.Name, UID: p.UID, Revision: p.Revision, Reason: reason}
	if p.Hook == HookArmed && !f.Gone {
		a.Kind, a.Reason, a.Evict = Prepare, Preparing, f.Fit == MustLeave
	}
	return a
}

// changing is the pod of a node of which a change in place is under way.
func (d *dumb) changing(f facts) (Pod, bool) {
	pods := f.running
	if d.surge() {
		pods = append(slices.Clone(f.current), f.old...)
	}
	if !d.mayRun(f) || d.s.Set.ExternalController || len(pods) == 0 || pods[0].InPlace == InPlaceNone || pods[0].UID == f.back {
		return Pod{}, false
	}
	return pods[0], true
}

// step is what is done about a change in place, and else what its node waits for and until when.
func (d *dumb) step(f facts) (do []Action, waits VerdictKind, until Time) {
	p, ok := d.changing(f)
	if !ok {
		return nil, 0, 0
	}
	unmark := Action{Kind: Unmark, Node: f.index, Pod: p.Name, UID: p.UID, Revision: p.Revision, Reason: FinishingInPlace}
	paces := d.s.Gate != nil && d.s.Gate.Creates && f.Refusal == nil // then what may be a new pod has its turn like any other
	replaced := p.Revision != d.s.Set.Update && d.s.Set.Strategy == RollingUpdate && f.hold == 0 && (p.InPlace != InPlaceArrived || p.Interrupted || !paces)
	able := d.s.Set.InPlace && d.whyNot(f, p) == NoDetail
	announced := p.InPlace == InPlaceAnnounced
	alone := len(f.live) == 1 && len(f.leaving) == 0
	again := d.removal(f, p, Recreating)
	again.Detail = p.Stuck
	resumed := Action{Kind: Resume, Node: f.index, Pod: p.Name, UID: p.UID, Revision: p.Revision, Reason: UpdatingInPlace}
	switch {
	case announced && p.GraceUntil > d.s.Now && !d.hopeless(f, p) && (!replaced || able && alone && !d.surge()):
		return nil, WaitGrace, p.GraceUntil
	case announced && !d.hopeless(f, p) && (!replaced || able && alone && !d.surge()):
		return []Action{resumed}, 0, 0
	case !replaced && d.hopeless(f, p) && alone && f.Blocked == "" && !d.optional(f) && p.Revision == d.s.Set.Update && d.s.Set.Strategy == RollingUpdate:
		return []Action{again}, 0, 0
	case replaced && announced && d.hopeless(f, p) && alone && !d.surge() && f.Blocked == "":
		return []Action{again}, 0, 0
	case !replaced && p.InPlace == InPlacePatched && p.Stuck != NoDetail && !d.hopeless(f, p) && f.Ready:
		return nil, WaitInPlace, d.patience(f, p)
	case !replaced && (p.InPlace == InPlacePatched || announced):
		return nil, WaitInPlace, 0
	case !replaced:
		return []Action{unmark}, 0, 0
	case d.surge() || len(f.live) != 1 || len(f.leaving) > 0:
		return nil, 0, 0
	case announced && d.hopeless(f, p):
		return nil, 0, 0
	case (p.InPlace == InPlaceMarked || p.InPlace == InPlaceArrived) && f.Refusal != nil && f.Refusal.Of == Patch:
		unmark.TakesBack = true
		return []Action{unmark}, 0, 0
	case able && p.InPlace == InPlaceMarked && p.GraceUntil > d.s.Now:
		return nil, WaitGrace, p.GraceUntil
	case able:
		return []Action{d.patched(f, p)}, 0, 0
	case f.Blocked != "":
		return nil, 0, 0
	default:
		return d.starts(f, p), 0, 0
	}
}
