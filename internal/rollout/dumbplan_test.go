// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// started is what the update does: the nodes whose turn it is, in order, before it is known how many actions have room.
type started struct {
	node   int
	reason VerdictKind
	charge bool
}

// room is what an update may still take.
type room struct {
	allowed, free, spare int
	probe                bool
	// pace is how many nodes a policy lets come into the middle of their update, and starts how many updates it lets start.
	pace, starts int
}

// vanished is whether the pod of a node is gone although no update has taken it, so that its create would begin one.
func (d *dumb) vanished(f facts) bool {
	g := d.s.Gate
	return g != nil && g.Creates && d.s.Set.Strategy == RollingUpdate && d.creates(f) &&
		d.successor(f) == d.s.Set.Update && d.remembers(f) && f.Last != d.s.Set.Update &&
		!d.counts(f) // a surge may create next to an old pod that is prepared
}

// recreate says which creates begin an update.
func (d *dumb) recreate(creates []Action, left *room) {
	for _, a := range creates {
		f := d.nodes[a.Node]
		switch refused := f.Refusal != nil; {
		case a.Kind != Create || !d.vanished(f):
		case left.starts <= 0 || !refused && left.pace <= 0:
			d.recreated[a.Node] = f.Last
		default:
			d.recreated[a.Node] = d.s.Set.Update
			left.starts--
			left.pace -= number(!refused)
		}
	}
}

// turns lists the nodes where the update starts: those where a write was refused come after all others. The creates that have room come before them.
func (d *dumb) turns(creates, again []Action) []started {
	left := room{allowed: 1 << 40, free: d.limit() - d.count(d.charged), pace: 1 << 40, starts: 1 << 40}
	if g := d.s.Gate; g != nil && g.InFlight >= 0 {
		left.pace = g.InFlight - d.count(func(f facts) bool {
			return d.inFlight(f) && !(f.index < len(g.Absent) && g.Absent[f.index]) && !(d.vanished(f) && f.Refusal == nil)
		})
	}
	if g := d.s.Gate; g != nil && g.Starts >= 0 {
		left.starts = g.Starts
	}
	d.paced, d.recreated = map[int]bool{}, map[int]int{}
	left.probe = d.probe()
	if d.s.Set.MaxReplacing != nil {
		left.allowed = ceil(*d.s.Set.MaxReplacing, d.desired()) - d.count(d.inFlight)
	}
	left.spare = d.count(func(f facts) bool {
		return d.counted(f) && (f.Fit == MustRun || f.Fit == MayStay) && len(f.live) <= 2 &&
			(d.anyServing(f.current) || len(f.old) > 0 && d.serving(f.old[0]))
	}) - d.desired()
	nodes := d.ordered()
	d.recreate(creates, &left)
	out := d.turnsOf(filterNodes(nodes, func(f facts) bool { return f.Refusal == nil }), &left)
	d.recreate(again, &left)
	return append(out, d.turnsOf(filterNodes(nodes, func(f facts) bool { return f.Refusal != nil && !d.barred(f) }), &left)...)
}

// ordered are the nodes in the order in which they are updated.
func (d *dumb) ordered() []facts {
	nodes := slices.Clone(d.nodes)
	if g := d.s.Gate; g != nil && g.NewestFirst {
		newest := func(f facts) (at Time) {
			for i := range f.Pods {
				at = max(at, f.Pods[i].Created)
			}
			return at
		}
		slices.SortStableFunc(nodes, func(a, b facts) int { return cmp.Compare(newest(b), newest(a)) })
	} else if d.s.Set.Descending {
		slices.Reverse(nodes)
	}
	return nodes
}

// barred is whether it is too early to try again what was refused.
func (d *dumb) barred(f facts) bool { return f.Refusal != nil && d.s.Now < f.Refusal.RetryAt }

func filterNodes(nodes []facts, keep func(facts) bool) []facts {
	return slices.DeleteFunc(slices.Clone(nodes), func(f facts) bool { return !keep(f) })
}

func (d *dumb) turnsOf(nodes []facts, left *room) []started {
	var out []started
	kind := Recreating
	if d.surge() {
		kind = Surging
	}
	for _, f := range nodes {
		switch {
		case !d.candidate(f) || !d.idle(f):
		case d.surge() && f.Fit == MayStay && left.starts <= 0:
			d.paced[f.index] = true
		case d.surge() && f.Fit == MayStay:
			left.starts--
			out = append(out, started{f.index, Removing, false})
		case d.early(f) || !d.inFlight(f) && left.allowed <= 0:
		case left.starts <= 0 || !d.inFlight(f) && left.pace <= 0:
			d.paced[f.index] = true
		default:
			left.allowed -= number(!d.inFlight(f))
			left.pace -= number(!d.inFlight(f))
			left.starts--
			out = append(out, started{f.index, kind, false})
		}
	}
	for _, f := range nodes {
		switch {
		case !d.candidate(f) || d.idle(f) || d.surge() && f.Fit == MayStay:
		case (left.free > 0 || left.probe) && (left.pace <= 0 || left.starts <= 0):
			d.paced[f.index] = true
		case left.free > 0 || left.probe:
			left.pace--
			left.starts--
			left.free--
			left.probe = false
			out = append(out, started{f.index, kind, true})
		}
	}
	for _, f := range nodes { // those that get no other pod
		if !d.candidate(f) || d.idle(f) || !d.surge() || f.Fit != MayStay {
			continue
		}
		cost := number(!d.young(f.old[0]))
		switch {
		case left.spare < cost:
		case left.starts <= 0:
			d.paced[f.index] = true
		default:
			left.spare -= cost
			left.starts--
			out = append(out, started{f.index, Removing, false})
		}
	}
	return out
}

// burst is the number of actions that a plan holds at most.
func (d *dumb) burst() int {
	q := d.s.Set.Burst
	if q.Value <= 0 {
		return 250
	}
	if !q.Percent {
		return q.Value
	}
	hundredths := min(q.Value, math.MaxInt32) * d.desired()
	return max(1, (hundredths-hundredths%100)/100)
}

// plan puts everything together.
func (d *dumb) plan() Plan {
	burst := d.burst()
	repairs := d.repairs()
	refused := func(a Action) bool { return d.nodes[a.Node].Refusal != nil && !a.TakesBack }
	at := except(repairs, refused)
	creating := func(a Action) bool { return a.Kind == Create }
	finishing := func(a Action) bool { return a.Kind == Unmark || a.Kind == Restore }
	all := slices.Concat(only(at, finishing), only(at, creating), except(except(at, finishing), creating))
	again := only(repairs, refused)
	tried := except(again, func(a Action) bool { return d.barred(d.nodes[a.Node]) })
	creates := only(at, creating)
	turns := d.turns(creates[:min(burst, len(creates))], tried[:min(burst, len(tried))])
	for _, list := range [][]Action{all, tried} {
		for i := range list {
			if to, is := d.recreated[list[i].Node]; is && list[i].Kind == Create {
				list[i].Revision, list[i].Begins = to, to == d.s.Set.Update
			}
		}
	}
	place := []int{} // of the first action of each turn
	for _, turn := range turns {
		place = append(place, len(all))
		all = append(all, d.actions(turn)...)
	}
	all = append(all, tried...)
	p := Plan{Actions: all[:min(burst, len(all))]}
	verdicts := make([]Verdict, 0, len(d.nodes))
	for _, f := range d.nodes {
		v := Verdict{Kind: d.verdict(f, slices.Concat(all, again), p.Actions), Charged: d.charged(f)}
		if i := slices.IndexFunc(p.Actions, func(a Action) bool { return a.Node == f.index }); i >= 0 {
			v.Detail = p.Actions[i].Detail
		}
		if v.Kind == WaitReplacing && d.early(f) {
			v.Detail = DetailMinReadyPending
		}
		if v.Kind == WaitUnreachable {
			v.Detail = d.absence(f)
		}
		if p, ok := d.changing(f); ok && v.Kind == WaitInPlace && p.InPlace == InPlacePatched && p.Stuck == DetailNotRestarted && !d.hopeless(f, p) {
			v.Detail = DetailRestarting
		}
		for i, turn := range turns {
			if turn.node == f.index && turn.charge && place[i] < burst {
				v.Charged = true
				p.Budget.UsedByUpdate++
			}
		}
		verdicts = append(verdicts, v)
	}
	p.Verdicts = verdicts
	d.fillBudget(&p)
	p.Status = d.status()
	p.Notes = d.notes(p.Actions)
	p.Memory = d.memory(p.Actions)
	cut, later := d.announce(&p)
	p.Wake = d.wake(cut || len(all) > len(p.Actions), p.Verdicts)
	if later != 0 && (p.Wake == 0 || later < p.Wake) {
		p.Wake = later
	}
	return p
}

func only(actions []Action, which func(Action) bool) []Action {
	return except(actions, func(a Action) bool { return !which(a) })
}

func except(actions []Action, which func(Action) bool) []Action {
	return slices.DeleteFunc(slices.Clone(actions), which)
}

// repairs lists what is done whatever the update does.
func (d *dumb) repairs() (out []Action) {
	if d.s.Set.ExternalController {
		return nil
	}
	for _, f := range d.nodes {
		steps, _, _ := d.step(f)
		out = append(out, steps...)
		for _, p := range f.pods {
			if p.UID == f.back {
				out = append(out, Action{Kind: Restore, Node: f.index, Pod: p.Name, UID: p.UID, Revision: p.Revision, Reason: Restoring, TakesBack: protected(f, p)})
			}
			if kind, goes := d.condemned(f, p); goes {
				out = append(out, d.removal(f, p, kind))
			}
		}
		if d.creates(f) {
			out = append(out, Action{Kind: Create, Node: f.index, Revision: d.successor(f), Reason: Creating})
		}
	}
	return out
}

// creates is whether a missing pod is created.
func (d *dumb) creates(f facts) bool {
	return d.missing(f) && f.Blocked == "" && f.hold != WaitProgressive
}

func (d *dumb) actions(turn started) []Action {
	f := d.nodes[turn.node]
	switch turn.reason {
	case Surging:
		return []Action{{Kind: Create, Node: turn.node, Revision: d.s.Set.Update, Reason: Surging}}
	case Removing:
		return []Action{d.removal(f, f.old[0], Removing)}
	default:
		return d.starts(f, f.old[0])
	}
}

// verdict is the verdict table. all are the wanted actions, kept those that have room.
func (d *dumb) verdict(f facts, all, kept []Action) VerdictKind {
	mine := func(a Action) bool { return a.Node == f.index }
	if i := slices.IndexFunc(kept, mine); i >= 0 {
		return kept[i].Reason
	}
	_, waits, _ := d.step(f)
	waiting := slices.ContainsFunc(f.leaving, func(p Pod) bool { return p.Hook == HookWaiting })
	rolling := d.s.Set.Strategy == RollingUpdate
	table := []struct {
		when bool
		kind VerdictKind
	}{
		{slices.ContainsFunc(all, mine), WaitBurst},
		{!d.known(), NotEvaluated},
		{d.elsewhere(f), WaitController},
		{f.Gone && len(f.pods) > 0, WaitCollection},
		{f.Gone, NotWanted},
		{f.Fit == MustLeave && waiting, WaitHook},
		{f.Fit == MustLeave && len(f.pods) > 0, WaitTerminating},
		{f.Fit == MustLeave, NotWanted},
		{!d.mayRun(f), NotEvaluated},
		{d.missing(f) && f.hold == WaitProgressive, WaitProgressive},
		{d.missing(f), Blocked},
		{f.held, WaitBackoff},
		{waiting, WaitHook},
		{waits != 0, waits},
		{d.absence(f) == DetailDownAfterUpdate, WaitUnreachable},
		{d.absence(f) != 0 && len(f.live) == 0 && len(f.pods) > 0, WaitUnreachable},
		{len(f.live) == 0 && len(f.pods) > 0, WaitTerminating},
		{len(f.live) == 0, NotWanted},
		{d.absence(f) != 0 && len(f.current) > 0 && !d.serving(f.current[0]), WaitUnreachable},
		{len(f.current) > 0 && !d.serving(f.current[0]), WaitAvailable},
		{len(f.current) > 0 && f.Unanswered, Blocked},
		{len(f.current) > 0 && f.Fit == MayStay, Stays},
		{len(f.current) > 0, UpToDate},
		{!rolling && d.s.Set.Announce && f.hold != 0, f.hold},
		{!rolling && d.s.Set.Announce, WaitNodeOwner},
		{!rolling, WaitOnDelete},
		{f.hold != 0, f.hold},
		{f.Blocked != "", Blocked},
		{d.handsTied(f), WaitController},
		{d.absence(f) != 0, WaitUnreachable},
		{d.startable(f) && d.imageless(f), WaitImage},
		{d.paced[f.index], WaitPace},
		{d.idle(f), WaitReplacing},
		{d.surge() && f.Fit == MayStay, WaitSurgeRemove},
		{true, WaitBudget},
	}
	i := slices.IndexFunc(table, func(line struct {
		when bool
		kind VerdictKind
	}) bool {
		return line.when
	})
	due := []VerdictKind{WaitBurst, WaitBackoff, WaitReplacing, WaitSurgeRemove}
	if d.limit() > 0 {
		due = append(due, WaitBudget)
	}
	if slices.ContainsFunc(f.pods, func(p Pod) bool { return d.wrong(f, p) }) {
		due = append(due, WaitNodeOwner)
	}
	if f.Refusal != nil && slices.Contains(due, table[i].kind) {
		return Blocked
	}
	return table[i].kind
}

func (d *dumb) fillBudget(p *Plan) {
	p.Budget.Limit = d.limit()
	p.Budget.Surge = d.surge() && d.known()
	p.Budget.UsedByUnreachable = d.count(func(f facts) bool { return d.charged(f) && !f.Ready })
	p.Budget.UsedByUpdate += d.count(func(f facts) bool { return d.charged(f) && f.Ready && d.inFlight(f) })
	p.Budget.UsedByOthers = d.count(func(f facts) bool { return d.charged(f) && f.Ready && !d.inFlight(f) })
}

func (d *dumb) status() Status {
	must := func(f facts) bool { return f.Fit == MustRun && !f.Gone }
	oldest := func(property func(Pod) bool) int {
		return d.count(func(f facts) bool { return must(f) && len(f.pods) > 0 && property(f.pods[0]) })
	}
	st := Status{
		Desired:   d.desired(),
		Current:   oldest(func(Pod) bool { return true }),
		Ready:     oldest(ready),
		Updated:   oldest(func(p Pod) bool { return d.known() && p.Revision == d.s.Set.Update }),
		Available: oldest(d.available),
		Misscheduled: d.count(func(f facts) bool {
			return !f.Gone && (f.Fit == MayStay || f.Fit == MustLeave) && len(f.pods) > 0
		}),
	}
	st.Unavailable = st.Desired - st.Available
	return st
}

func (d *dumb) notes(actions []Action) []Note {
	kinds := map[VerdictKind]NoteKind{ReplacingFailed: FoundFailedPod, ReplacingEnded: FoundSucceededPod}
	var out []Note
	for i, a := range actions {
		if kind, ok := kinds[a.Reason]; ok {
			out = append(out, Note{Kind: kind, Node: a.Node, Action: i, Pod: a.Pod})
		}
	}
	return out
}

// memory keeps a map by node and sorts it at the end.
func (d *dumb) memory(actions []Action) Memory {
	if !d.known() {
		return d.s.Memory
	}
	m := Memory{Update: d.s.Revisions[d.s.Set.Update].Name}
	known := map[string]Backoff{}
	for _, b := range d.s.Memory.Backoffs {
		present := slices.ContainsFunc(d.s.Nodes, func(n Node) bool { return n.Name == b.Node })
		if present && d.s.Memory.Update == m.Update && b.Last <= d.s.Now && b.Last.Add(30*time.Minute) >= d.s.Now {
			known[b.Node] = b
		}
	}
	done := map[string]bool{}
	for _, a := range actions {
		name := d.s.Nodes[a.Node].Name
		if a.Reason != ReplacingFailed || done[name] {
			continue
		}
		done[name] = true
		delay := time.Second
		if b, ok := known[name]; ok {
			delay = min(max(b.Delay*2, time.Second), 15*time.Minute)
		}
		known[name] = Backoff{Node: name, Delay: delay, Last: d.s.Now}
	}
	for _, b := range known {
		m.Backoffs = append(m.Backoffs, b)
	}
	slices.SortFunc(m.Backoffs, func(a, b Backoff) int { return strings.Compare(a.Node, b.Node) })
	return m
}

func (d *dumb) wake(cut bool, verdicts []Verdict) Time {
	var moments []Time
	if cut {
		moments = append(moments, d.s.Now)
	}
	for _, f := range d.nodes {
		if d.barred(f) && f.index < len(verdicts) && verdicts[f.index].Kind == Blocked {
			moments = append(moments, f.Refusal.RetryAt)
		}
		if f.held {
			moments = append(moments, f.until)
		}
		if d.startable(f) && d.imageless(f) && f.ImageUntil != 0 {
			moments = append(moments, f.ImageUntil)
		}
		if _, _, until := d.step(f); until != 0 {
			moments = append(moments, until)
		}
		for _, p := range f.pods {
			if !f.Gone && ready(p) && p.ReadySince != 0 && !d.available(p) {
				moments = append(moments, p.ReadySince.Add(d.s.Set.MinReady))
			}
		}
	}
	if at := d.trial(); at != 0 {
		moments = append(moments, at)
	}
	if len(moments) == 0 {
		return 0
	}
	if first := slices.Min(moments); first != 0 {
		return first
	}
	return 1
}
