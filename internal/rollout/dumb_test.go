// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
	"time"
)

// This is the same decision made a second time, by somebody who has read only the package comment and has all the time in
// the world: one table per question, every question asked again for every node, maps and lists everywhere. It shares no
// code with the core but the types (and their small methods).

// facts is what a node looks like.
type facts struct {
	Node
	index int
	// pods are all but the ignored ones, oldest first; the others are parts of it.
	pods, live, running, current, old []Pod
	// leaving are the pods that are preparing to be deleted. They are neither live nor running, but for the one that is
	// back: restored, because it is wanted again.
	leaving []Pod
	back    string
	// hold is what keeps an update from it.
	hold VerdictKind
	// held is whether its failed pods wait for their back-off, until is the end of that.
	held  bool
	until Time
}

type dumb struct {
	s     Snapshot
	nodes []facts
	// paced are the nodes on which an update would start but for the pace of a policy.
	paced map[int]bool
	// recreated is which revision the creates get that may begin an update.
	recreated map[int]int
	// spotless is whether to forget what earlier versions may have done.
	spotless bool
}

func newDumb(s Snapshot) *dumb {
	d := &dumb{s: s}
	for i, n := range s.Nodes {
		f := facts{Node: n, index: i}
		f.pods = filter(n.Pods, func(p Pod) bool { return !(p.Deleting && (p.Phase == Failed || p.Phase == Succeeded)) })
		slices.SortStableFunc(f.pods, func(a, b Pod) int {
			return cmp.Or(cmp.Compare(number(b.Scheduled), number(a.Scheduled)), cmp.Compare(a.Created, b.Created),
				cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
		if p, ok := d.restored(f); ok {
			f.back = p.UID
		}
		f.leaving = filter(f.pods, func(p Pod) bool { return !p.Deleting && preparing(p) && p.UID != f.back })
		f.live = filter(f.pods, func(p Pod) bool { return !p.Deleting && (!preparing(p) || p.UID == f.back) })
		f.running = filter(f.live, func(p Pod) bool { return p.Phase != Failed && p.Phase != Succeeded })
		f.current = filter(f.running, func(p Pod) bool { return p.Revision == s.Set.Update })
		f.old = filter(f.running, func(p Pod) bool { return p.Revision != s.Set.Update })
		if d.surge() { // the one that serves is the one to keep
			f.old = append(filter(f.old, ready), filter(f.old, func(p Pod) bool { return !ready(p) })...)
		}
		if has(f.live, Failed) && d.mayRun(f) && !s.Set.ExternalController {
			f.held, f.until = d.backoff(n.Name)
		}
		d.nodes = append(d.nodes, f)
	}
	for i, hold := range d.holds() {
		d.nodes[i].hold = hold
	}
	return d
}

func filter(pods []Pod, keep func(Pod) bool) []Pod {
	out := []Pod{}
	for _, p := range pods {
		if keep(p) {
			out = append(out, p)
		}
	}
	return out
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func has(pods []Pod, phase Phase) bool {
	return len(filter(pods, func(p Pod) bool { return p.Phase == phase })) > 0
}

func (d *dumb) known() bool { return d.s.Set.Update >= 0 && d.s.Set.Update < len(d.s.Revisions) }

func (d *dumb) surge() bool {
	return d.s.Set.Strategy == RollingUpdate && d.s.Set.MaxSurge.Value > 0 && !d.s.Set.ExternalController
}

func (d *dumb) mayRun(f facts) bool {
	return d.known() && !f.Gone && (f.Fit == MustRun || f.Fit == MayStay)
}

func (d *dumb) available(p Pod) bool {
	if d.s.Set.MinReady <= 0 {
		return ready(p)
	}
	return ready(p) && p.ReadySince != 0 && p.ReadySince.Add(d.s.Set.MinReady) <= d.s.Now
}

// backoff says whether a node's failed pods wait, and until when.
func (d *dumb) backoff(node string) (bool, Time) {
	if d.s.Memory.Update != d.s.Revisions[d.s.Set.Update].Name {
		return false, 0
	}
	for _, b := range d.s.Memory.Backoffs {
		if b.Node == node && b.Last <= d.s.Now && b.Last.Add(30*time.Minute) >= d.s.Now && b.Last.Add(b.Delay) > d.s.Now {
			return true, b.Last.Add(b.Delay)
		}
	}
	return false, 0
}

// pair and handedOver describe the two running pods that surge allows on a node.
func (d *dumb) pair(f facts) bool { return d.surge() && len(f.current) > 0 && len(f.old) > 0 }

func (d *dumb) handedOver(f facts) bool {
	return d.pair(f) && (d.serving(f.current[0]) || !ready(f.old[0]))
}

// condemned says why a pod has to go whatever the update does.
func (d *dumb) condemned(f facts, p Pod) (VerdictKind, bool) {
	keep := map[string]bool{}
	for _, group := range [][]Pod{f.current, f.old} {
		if d.surge() && len(group) > 0 {
			keep[group[0].UID] = true
		}
	}
	if !d.surge() && len(f.running) > 0 {
		keep[f.running[0].UID] = true
	}
	table := []struct {
		when bool
		kind VerdictKind
	}{
		{p.Deleting || !d.known() || d.s.Set.ExternalController, 0},
		{f.Gone && p.Scheduled, 0},
		{f.Gone, Removing},
		{p.Hook == HookWaiting, 0},
		{f.Fit == MustLeave, Removing},
		{!d.mayRun(f) || p.UID == f.back, 0},
		{p.Phase == Failed && f.held && !preparing(p), 0},
		{p.Phase == Failed, ReplacingFailed},
		{p.Phase == Succeeded, ReplacingEnded},
		{preparing(p) && d.surge() && len(f.current) > 0 && p.Revision != d.s.Set.Update, FinishingSurge},
		{preparing(p) && len(f.running) > 0, RemovingExcess},
		{preparing(p) && d.surge() && f.Fit == MayStay, Removing},
		{preparing(p), Recreating},
		{!keep[p.UID], RemovingExcess},
		{d.handedOver(f) && p.UID == f.old[0].UID, FinishingSurge},
	}
	for _, line := range table {
		if line.when {
			return line.kind, line.kind != 0
		}
	}
	return 0, false
}

// missing is whether a node has to get a pod whatever the update does.
func (d *dumb) missing(f facts) bool {
	switch {
	case !d.mayRun(f) || f.Fit != MustRun || d.s.Set.ExternalController:
		return false
	case d.surge():
		return len(f.running) == 0 && !f.held
	default:
		return len(f.pods) == 0
	}
}

// startable is whether an update could start on a node as far as its pods go: one old pod, nothing else going on.
func (d *dumb) startable(f facts) bool {
	return d.mayRun(f) && d.s.Set.Strategy == RollingUpdate && f.Blocked == "" && len(f.live) == 1 && len(f.old) == 1 &&
		len(f.leaving) == 0 && f.back == "" && f.hold == 0 && (f.old[0].InPlace == InPlaceNone || d.surge()) && d.absence(f) == NoDetail && !d.handsTied(f)
}

// candidate is whether an update could start on a node now.
func (d *dumb) candidate(f facts) bool { return d.startable(f) && !d.imageless(f) }

// counted is whether a node can be charged at all.
func (d *dumb) counted(f facts) bool {
	if !d.known() || d.s.Set.Strategy != RollingUpdate || f.Gone || f.Fit == MustLeave || f.hold == WaitProgressive {
		return false
	}
	if f.Fit == MayStay && d.s.Set.EligibleOnly && (f.Ready || f.hold == WaitEligible) {
		return false
	}
	return f.Fit == MustRun || len(f.pods) > 0
}

// charged is the charge table.
func (d *dumb) charged(f facts) bool {
	switch {
	case !d.counted(f):
		return false
	case d.absence(f) != NoDetail:
		return d.absence(f) == DetailDownAfterUpdate
	case !d.surge():
		return !(len(f.live) == 1 && d.anyServing(f.running) && len(f.leaving) == 0)
	case f.Unanswered && len(f.live)+len(f.leaving) > 0: // one more than these
		return true
	case len(f.live)+len(f.leaving) <= 1:
		return false
	case len(f.leaving) == 1 && len(f.live) == 1 && f.leaving[0].Hook == HookReleased && len(f.current) == 1 && d.serving(f.current[0]):
		return false
	default:
		return !(len(f.live) == 2 && len(f.leaving) == 0 && len(f.current) == 1 && len(f.old) == 1 && d.handedOver(f) && f.old[0].Hook == HookNone)
	}
}

func (d *dumb) inFlight(f facts) bool {
	wanted := filter(f.live, func(p Pod) bool { return p.Revision == d.s.Set.Update })
	halfway := filter(f.running, func(p Pod) bool { return p.InPlace != InPlaceNone })
	free := d.absence(f) == DetailDownBefore || d.absence(f) == DetailDownLater
	return d.counted(f) && !free && (len(f.running) == 0 || len(wanted) > 0 && !d.anyServing(f.current) || len(halfway) > 0 || f.Unanswered)
}

func (d *dumb) desired() int {
	n := 0
	for _, f := range d.nodes {
		n += number(f.Fit == MustRun && !f.Gone)
	}
	return n
}

func (d *dumb) limit() int {
	if !d.known() || d.s.Set.Strategy != RollingUpdate {
		return 0
	}
	if d.surge() {
		return ceil(d.s.Set.MaxSurge, d.desired())
	}
	limit := ceil(d.s.Set.MaxUnavailable, d.desired())
	if limit == 0 && d.desired() > 0 {
		return 1
	}
	return limit
}

// ceil resolves a quantity by counting up.
func ceil(q Quantity, total int) int {
	if !q.Percent {
		return max(q.Value, 0)
	}
	n := 0
	for n*100 < q.Value*total {
		n++
	}
	return n
}

// count counts the nodes with a property.
func (d *dumb) count(property func(facts) bool) int {
	n := 0
	for _, f := range d.nodes {
		n += number(property(f))
	}
	return n
}
