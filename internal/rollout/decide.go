// SPDX-License-Identifier: Apache-2.0

package rollout

import "math"

// Decide returns what is to be done for one set at one moment. It is total (no Snapshot makes it fail or panic) and
// deterministic (the same Snapshot gives the same Plan; so does one that lists the pods of a node in another order).
// The Snapshot is only read.
func Decide(s Snapshot) Plan {
	d := begin(&s)
	d.holdNodes()
	for i := range s.Nodes {
		if !d.visitUntouched(i) {
			d.visitNode(i)
		}
	}
	d.countUntouched()
	d.startUpdates()
	return d.finish()
}

// decision is the state of one run of Decide.
type decision struct {
	in *Snapshot
	// usable reports whether the wanted revision is known. Without it every pod would look old, so nothing is done.
	usable bool
	// surge reports whether an update creates first and deletes later.
	surge    bool
	verdicts []Verdict
	status   Status
	usage    budgetUsage
	queue    actionQueue
	// round is the turn of the nodes on which updates are being started; refusals is whether any node has a Refusal.
	round    turn
	refusals bool
	// untouched is the number of nodes where all is well.
	untouched int
	wake      Time
	// found contains the kinds of verdict that visitNode has given. An update may start where one of three is.
	found [math.MaxUint8 + 1]bool
	// announcementsDue reports whether the announcement of any pod about a newer revision is wrong.
	announcementsDue bool
	// holds contains for each node what holds it back; nil if the limits of the set hold no node back. gating reports whether a policy may hold nodes back.
	holds  []VerdictKind
	gating bool
	// order is the order in which updates start if it is that of newestFirst, else nil.
	order []int
	// scratch holds the pods of the node being visited when they did not come in order of age.
	scratch []Pod
	trust   trust
}

// nodeContext is one node while it is being visited.
type nodeContext struct {
	index int
	node  *Node
	// pods are the node's pods in order of age.
	pods []Pod
	podCounts
	// hold is what holds the node back; notHeld if nothing does.
	hold VerdictKind
	// down is set on a node that the update leaves out because it is not ready; earlier reports whether only an earlier version may be the reason.
	down    Detail
	earlier bool
	// vanished reports whether the create of its pod would begin its update: then it does not count as being in the middle of one before the pace allows that.
	vanished bool
	// awaits is what a change in place waits for, if that can be said.
	awaits Detail
}

func begin(s *Snapshot) *decision {
	d := &decision{
		in:       s,
		usable:   s.Set.Update >= 0 && s.Set.Update < len(s.Revisions),
		surge:    s.Set.Strategy == RollingUpdate && s.Set.MaxSurge.Value > 0 && !s.Set.ExternalController,
		verdicts: make([]Verdict, len(s.Nodes)),
	}
	d.queue.burst = s.burst()
	return d
}

// burst is the number of actions that the plan may hold. The base of a percentage is counted now, and not
// taken from the status, which has the number of desired nodes when it was written.
func (s *Snapshot) burst() int {
	q := s.Set.Burst
	switch {
	case q.Value <= 0:
		return DefaultBurst
	case !q.Percent:
		return q.Value
	}
	desired := 0
	for i := range s.Nodes {
		if s.Nodes[i].Fit == MustRun && !s.Nodes[i].Gone {
			desired++
		}
	}
	return max(1, q.Down(desired))
}

// visitNode evaluates everything about a node that does not depend on the others. The verdict of a node where something
// is to be done is WaitBurst until finish has found room for one of its actions.
func (d *decision) visitNode(i int) {
	n := &d.in.Nodes[i]
	var t nodeContext // field by field: a composite literal is made elsewhere first and then copied, for each node
	t.index, t.node, t.pods, t.hold = i, n, d.byAge(n.Pods), d.hold(i)
	d.countPods(&t)
	if !n.Ready && d.in.Set.Unreachable.Skip {
		d.attributeDown(&t)
	}
	d.count(&t)
	if d.queue.turn = d.turnOf(n); d.queue.turn != atOnce {
		d.refusals = true
	}
	v := Verdict{Kind: d.decideNode(&t), Charged: d.charge(&t)}
	if v.Kind == WaitUnreachable {
		v.Detail = t.down
	} else if v.Kind.AwaitsPod() {
		v.Detail = t.awaits
	}
	d.found[v.Kind] = true
	d.verdicts[i] = v
}

func (d *decision) decideNode(t *nodeContext) VerdictKind {
	switch {
	case !d.usable:
		return NotEvaluated
	case d.in.Set.ExternalController:
		return d.decideExternal(t)
	case t.node.Gone:
		return d.decideMissingNode(t)
	case t.node.Fit == MustLeave:
		return d.decideIneligible(t)
	case t.node.Fit == MustRun, t.node.Fit == MayStay:
		return d.decideEligible(t)
	default:
		return NotEvaluated
	}
}

// decideEligible handles a node that may run the pod: it repairs what is broken, creates what is missing, and otherwise sets what the node waits for.
func (d *decision) decideEligible(t *nodeContext) VerdictKind {
	held := t.failed > 0 && d.inBackoff(t.node.Name)
	acts, waits := false, notHeld
	if t.changing {
		acts, waits = d.proceed(t)
	}
	acts = d.cleanUp(t, held) || acts
	if d.wantsPod(t, held) {
		if obstacle := d.createObstacle(t); obstacle == notHeld {
			revision := d.successor(t)
			t.vanished = d.queue.turn == atOnce && d.beginsByCreate(t.node, revision)
			if !d.queue.skipCreate() {
				d.queue.repair(t.create(revision, Creating))
			}
			acts = true
		} else if !acts {
			return obstacle
		}
	}
	switch {
	case acts:
		return WaitBurst
	case held:
		return WaitBackoff
	case t.waiting > 0:
		return WaitHook
	case waits != notHeld:
		return waits
	default:
		return d.waitReason(t)
	}
}

// createObstacle is what keeps a missing pod from being created.
func (d *decision) createObstacle(t *nodeContext) VerdictKind {
	switch {
	case t.hold == WaitProgressive:
		return WaitProgressive
	case d.unfit(t):
		return t.hold
	case t.node.Blocked != "":
		return Blocked
	default:
		return notHeld
	}
}

// wantsPod reports whether a pod must be created, whatever the update is doing. Without surge a terminating pod is in the
// way: there are never two pods on a node. With surge only a failed pod that waits for its back-off is: its successor
// would fail as fast as it did.
func (d *decision) wantsPod(t *nodeContext, held bool) bool {
	if t.node.Fit != MustRun {
		return false
	}
	if d.surge {
		return t.running == 0 && !held
	}
	return t.seen == 0
}

// waitReason returns what a node waits for if it needs no action, or only one of an update. For a node on
// which an update may start, this is the reason while it is not its turn: WaitReplacing, WaitBudget,
// WaitSurgeRemove.
func (d *decision) waitReason(t *nodeContext) VerdictKind {
	switch {
	case d.waitsUnreachable(t):
		return WaitUnreachable
	case t.running == 0 && t.terminating > 0:
		return WaitTerminating
	case t.running == 0:
		return NotWanted
	case t.current != nil && !d.serving(t.current):
		return WaitAvailable
	case t.current != nil && t.node.Unanswered:
		return Blocked // an old pod may be there as well
	case t.current != nil && t.node.Fit == MayStay:
		return Stays
	case t.current != nil:
		return UpToDate
	case d.in.Set.Strategy != RollingUpdate && d.in.Set.Announce:
		return d.waitForOwner(t)
	case d.in.Set.Strategy != RollingUpdate:
		return WaitOnDelete
	case t.hold != notHeld:
		return t.hold
	case t.node.Blocked != "":
		return Blocked
	case d.leftToController(t):
		return WaitController
	case t.down != NoDetail:
		return WaitUnreachable
	case d.awaitsImage(t):
		return WaitImage
	case d.freeToReplace(t.old):
		return WaitReplacing
	case d.surge && t.node.Fit == MayStay:
		return WaitSurgeRemove
	default:
		return WaitBudget
	}
}

// waitForOwner returns what an old pod waits for if the owner of the node updates it: first for the policy to allow the announcement, then for the owner.
func (d *decision) waitForOwner(t *nodeContext) VerdictKind {
	if d.heldByPolicy(t.index) {
		return t.hold
	}
	return WaitNodeOwner
}

// finish makes the plan out of what has been collected.
func (d *decision) finish() Plan {
	actions, cut := d.queue.actions()
	// Backwards, so that a node with several actions ends with the verdict of the first of them.
	for i := len(actions) - 1; i >= 0; i-- {
		v := &d.verdicts[actions[i].Node]
		v.Kind, v.Detail = actions[i].Reason, actions[i].Detail
	}
	if cut {
		d.wakeAt(d.in.Now)
	}
	d.blockRefused()
	announcements := d.announcements(d.queue.burst - len(actions))
	d.status.Unavailable = d.status.Desired - d.status.Available
	return Plan{
		Actions:  actions,
		Status:   d.status,
		Wake:     d.wake,
		Verdicts: d.verdicts,
		Budget:   d.usage.Budget,
		Notes:    notes(actions),
		Memory:   d.remember(actions),

		Announcements: announcements,
	}
}

// wakeAt makes sure that Decide is asked again at t at the latest. Because 0 means never, the moment 0 becomes 1.
func (d *decision) wakeAt(t Time) {
	d.wake = Earlier(d.wake, notNever(t))
}

// notNever is a moment that is not taken for never: 0 becomes 1.
func notNever(t Time) Time {
	if t == 0 {
		return 1
	}
	return t
}
