// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// Assumptions are durations that the simulation cannot compute.
type Assumptions struct {
	// Stop is the time from the delete of a pod until it no longer exists, Start from its creation until it is ready.
	// Negative values, except for Stop and Change, mean that it never happens.
	Stop, Start time.Duration
	// Change is the time that a node needs for a change in place.
	Change time.Duration
	// Hook is how long a preDelete hook takes to release a pod, Pull how long it takes until all nodes that wait for
	// images have them.
	Hook, Pull time.Duration
	// Apart reports whether two pods of the set cannot run on a node at once, for example because both need the same
	// host port. Then the second pod is scheduled after the first no longer exists.
	Apart bool
	// Fails names the nodes on which pods of the wanted revision never get ready, because their containers crash.
	Fails map[string]bool
}

// Simulate simulates the plan for s until nothing changes any more.
func Simulate(s rollout.Snapshot, a Assumptions) (Result, error) {
	p := newSimulator(s, a)
	return p.run()
}

// simulator simulates one plan. The world is the whole state; records are the observations.
type simulator struct {
	world  rollout.World
	decide func(rollout.Snapshot) rollout.Plan
	// governed reports whether rollout policies restrict decide.
	governed bool
	// seen, if not nil, is called with the world after each plan.
	seen func(*rollout.World)
	kubelets
	begin   rollout.Time
	records []record
	// open are the nodes that have started and not finished.
	open []int
	// updates and repairs count the starts, updatesRunning the updates in progress.
	updates, repairs, updatesRunning int
	// down are the nodes that are down.
	down []int
	// unready are the nodes that are not ready. They stay not ready.
	unready []int
	result  Result
	last    rollout.Plan
}

// record is what happened on one node.
type record struct {
	verdict Verdict
	weight  int
	reason  rollout.VerdictKind
	detail  rollout.Detail
	// begun reports whether anything has started, including a preDelete hook; place and update describe the place in the
	// order.
	begun, update bool
	place         int
	start, end    rollout.Time
	// open reports whether the change has not finished yet, ended whether it has.
	open, ended bool
	// away reports whether the node used the budget while it was not ready.
	away bool
	// collected reports whether the node does not exist and its pods are left to the pod garbage collector.
	collected bool
}

func newSimulator(s rollout.Snapshot, a Assumptions) *simulator {
	p := &simulator{
		world: rollout.NewWorld(s), decide: rollout.Decide, begin: s.Now,
		kubelets: newKubelets(a, s.Set.Update), records: make([]record, len(s.Nodes)),
	}
	p.pull(&p.world.State)
	for i := range p.world.State.Nodes {
		p.observe(&p.world.State, i)
		if n := &p.world.State.Nodes[i]; !n.Ready && !n.Gone {
			p.unready = append(p.unready, i)
		}
	}
	for i := range s.Nodes {
		if p.isDown(i) {
			p.down = append(p.down, i)
		}
	}
	p.recount()
	p.result.DownBefore = len(p.down)
	return p
}

// maxIdle is after how many passes without an effect the simulation of a set with policies ends: then they are about windows that open and close again, for example, while something else
// prevents every start.
const maxIdle = 1000

// run executes plans until nothing happens, no task is due, and Decide requests no further pass.
func (p *simulator) run() (Result, error) {
	s := &p.world.State
	idle := 0
	for range 1000 + 100*len(s.Nodes) {
		acted, wake, err := p.step()
		if err != nil {
			return Result{}, fmt.Errorf("simulating the plan at %v: %w", s.Now.Sub(p.begin), err)
		}
		due := p.due()
		next := rollout.Earlier(wake, due)
		if idle++; acted || due != 0 || !p.governed {
			idle = 0
		}
		switch {
		case next == 0 && !acted, idle >= maxIdle:
			return p.finish(), nil
		case next > s.Now:
			s.Now = next
		case !acted:
			s.Now = s.Now.Add(1) // all due tasks are finished: the time must advance
		}
		p.serve(s)
	}
	return Result{}, fmt.Errorf("the simulation does not end within %v: this is a defect of the simulation, not of the set", s.Now.Sub(p.begin))
}

// step makes a plan and applies it, and then the actions of the external controller, if there is one.
func (p *simulator) step() (acted bool, wake rollout.Time, err error) {
	s := &p.world.State
	p.recount() // before finished nodes are removed
	plan := p.decide(*s)
	p.close(plan.Verdicts)
	for _, i := range p.unready {
		p.records[i].away = p.records[i].away || plan.Verdicts[i].Charged
	}
	p.recordActions(plan.Actions)
	if err := p.world.Apply(plan); err != nil {
		return false, 0, err
	}
	kept, err := p.world.Keep()
	if err != nil {
		return false, 0, fmt.Errorf("the other controller: %w", err)
	}
	p.recordActions(kept.Actions)
	for _, actions := range [][]rollout.Action{plan.Actions, kept.Actions} {
		for i := range actions {
			p.observe(s, actions[i].Node)
		}
	}
	if p.last.Verdicts == nil {
		p.result.Limit, p.result.Doubling = plan.Budget.Limit, plan.Budget.Surge
		for i := range plan.Verdicts {
			p.records[i].collected = plan.Verdicts[i].Kind.Cause() == rollout.CauseCollector
		}
	}
	p.last = plan
	p.recount()
	if p.seen != nil {
		p.seen(&p.world)
	}
	return len(plan.Actions)+len(plan.Announcements)+len(kept.Actions) > 0, rollout.Earlier(plan.Wake, kept.Wake), nil
}

// recordActions records what is started.
func (p *simulator) recordActions(actions []rollout.Action) {
	for i := range actions {
		a := &actions[i]
		r := &p.records[a.Node]
		if a.Kind == rollout.Prepare {
			p.begun(r, a.Node, p.forUpdate(a))
			continue
		}
		verdict, weight := started(a)
		if weight == 0 {
			continue
		}
		if n := &p.world.State.Nodes[a.Node]; verdict == Recreate && n.Fit != rollout.MustRun && n.Ready {
			verdict = Remove // a pod may stay here, but none replaces it; on a node that is not ready, one does when it is ready again
		}
		p.begun(r, a.Node, a.Reason.Replaces())
		if weight > r.weight {
			r.verdict, r.weight, r.reason, r.detail = verdict, weight, a.Reason, a.Detail
		}
	}
}

// forUpdate reports whether a pod is prepared because its update begins.
func (p *simulator) forUpdate(a *rollout.Action) bool {
	s := &p.world.State
	n := &s.Nodes[a.Node]
	i := slices.IndexFunc(n.Pods, func(p rollout.Pod) bool { return p.UID == a.UID })
	return i >= 0 && n.Fit == rollout.MustRun && s.Set.Strategy == rollout.RollingUpdate &&
		n.Pods[i].Revision != s.Set.Update && !n.Pods[i].Phase.Terminal()
}

// begun assigns a node its place in the order when something starts on it for the first time, or when its update starts
// after a repair.
func (p *simulator) begun(r *record, node int, update bool) {
	if r.begun && (r.update || !update) {
		return
	}
	if !r.open {
		p.open = append(p.open, node)
	}
	r.open, r.begun, r.update, r.start, r.ended = true, true, update, p.world.State.Now, false
	if !update {
		r.place = p.repairs
		p.repairs++
		return
	}
	r.place = p.updates
	p.updates++
	p.updatesRunning++
	p.result.MostAtOnce = max(p.result.MostAtOnce, p.updatesRunning)
}

// close records which nodes have finished.
func (p *simulator) close(verdicts []rollout.Verdict) {
	p.open = slices.DeleteFunc(p.open, func(i int) bool {
		kind := verdicts[i].Kind
		if kind.Acts() || kind == rollout.WaitBurst || finalVerdict(kind) == Blocked {
			return false
		}
		r := &p.records[i]
		r.open, r.ended, r.end = false, true, p.world.State.Now
		if r.update {
			p.updatesRunning--
		}
		return true
	})
}

// isDown reports whether a node must run a pod and has none that is available.
func (p *simulator) isDown(node int) bool {
	s := &p.world.State
	n := &s.Nodes[node]
	if n.Fit != rollout.MustRun || n.Gone {
		return false
	}
	for i := range n.Pods {
		if serves(s, &n.Pods[i]) {
			return false
		}
	}
	return true
}

// recount updates the highest number of nodes that are down. Only nodes in progress go down.
func (p *simulator) recount() {
	p.down = slices.DeleteFunc(append(append(p.down, p.open...), p.busy...), func(i int) bool { return !p.isDown(i) })
	slices.Sort(p.down)
	p.down = slices.Compact(p.down)
	p.result.MostDown = max(p.result.MostDown, len(p.down))
}

// serves reports whether a pod is available and not terminating.
func serves(s *rollout.Snapshot, p *rollout.Pod) bool {
	if p.Deleting || !p.Ready || p.Phase.Terminal() || p.InPlace != rollout.InPlaceNone {
		return false
	}
	return s.Set.MinReady <= 0 || p.ReadySince != 0 && p.ReadySince.Add(s.Set.MinReady) <= s.Now
}

// finish returns the result of the simulation.
func (p *simulator) finish() Result {
	r := p.result
	r.Nodes = make([]Node, len(p.records))
	for i := range p.records {
		r.Nodes[i] = p.outcome(i)
		if r.Nodes[i].Ended {
			r.Duration = max(r.Duration, r.Nodes[i].End)
		}
	}
	return r
}

func (p *simulator) outcome(i int) Node {
	n, rec, left := &p.world.State.Nodes[i], &p.records[i], p.last.Verdicts[i]
	out := Node{Name: n.Name, Verdict: finalVerdict(left.Kind), Reason: left.Kind, Detail: left.Detail, Obstacle: obstacle(n, left.Kind)}
	out.Away = rec.away
	if rec.collected {
		out.Reason = rollout.WaitCollection // the reason is what exists now, not that the node has no pod
	}
	if rec.weight == 0 {
		return out
	}
	size := p.burst()
	if rec.update {
		size = max(p.result.Limit, 1)
	}
	out.Verdict, out.Reason, out.Detail = rec.verdict, rec.reason, rec.detail
	out.Place, out.Update, out.Wave = rec.place, rec.update, rec.place/size+1
	out.Start, out.Ended = rec.start.Sub(p.begin), rec.ended
	if rec.ended {
		out.End, out.Obstacle = rec.end.Sub(p.begin), ""
	}
	return out
}

// burst returns the maximum number of writes in one plan.
func (p *simulator) burst() int {
	q := p.world.State.Set.Burst
	if q.Value <= 0 {
		return rollout.DefaultBurst
	}
	return max(1, q.Down(p.last.Status.Desired))
}

// obstacle returns more detail than the verdict about what blocks a node.
func obstacle(n *rollout.Node, kind rollout.VerdictKind) string {
	switch {
	case kind.Cause() == rollout.CauseRefusal:
		return n.Obstacle()
	case !kind.Waits():
		return ""
	}
	for i := range n.Pods {
		if n.Pods[i].Trouble != "" {
			return n.Pods[i].Trouble
		}
	}
	if !n.Ready && !n.Gone {
		return "the node is not ready"
	}
	return ""
}
