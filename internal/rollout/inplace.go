// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

// inPlace reports whether an old pod of a node can be changed in place, and if not although the set asks for it, why.
func (d *decision) inPlace(n *Node, p *Pod) (bool, Detail) {
	switch {
	case !d.changesInPlace():
		return false, NoDetail
	case !d.inHistory(p.Revision):
		return false, DetailNotInHistory
	case !p.Gate && d.in.Set.ClosesGate():
		return false, DetailNoGate
	}
	r := &d.in.Revisions[p.Revision]
	if !r.InPlace && r.Why == NoDetail {
		return false, DetailTemplate
	}
	if r.InPlace && r.Resize && p.NoResize {
		return false, DetailResizeRefused
	}
	if r.InPlace && r.InitImages && !d.in.Set.InitImages {
		return false, DetailInitImage
	}
	if r.InPlace && r.Agent && !n.Agent {
		return false, DetailNoAgent
	}
	if r.InPlace && r.Agent && p.Starting && !p.Ready {
		return false, DetailStarting
	}
	return r.InPlace, r.Why
}

// ClosesGate reports whether a pod is made not ready before it is changed in place.
func (s *Set) ClosesGate() bool { return s.CloseGate || s.Grace > 0 }

// RestartWithin is the time in which the agent of a node must stop containers that should be restarted, in addition to their grace period.
const RestartWithin = 30 * time.Second

// stuck reports whether a change in place is under way that can never come to its end, or whose time has ended. A node that was not ready has
// the time of a restart once more.
func (d *decision) stuck(t *nodeContext, p *Pod) bool {
	if p.Stuck == NoDetail || p.InPlace != InPlacePatched && p.InPlace != InPlaceAnnounced {
		return false
	}
	return p.StuckAt == 0 || t.node.Ready && d.stuckAt(t.node, p) <= d.in.Now
}

// stuckAt is when the time for a change ends. The node's own clock may have set Node.Since, so it does not count if it has not passed.
func (d *decision) stuckAt(n *Node, p *Pod) Time {
	if n.Since > d.in.Now {
		return p.StuckAt
	}
	return max(p.StuckAt, n.Since.Add(RestartWithin))
}

// proceed continues a change in place that is in progress, even if the set no longer requests changes in
// place. It reports whether there is something to do, and otherwise what the node waits for, if it waits for
// the change.
func (d *decision) proceed(t *nodeContext) (acts bool, waits VerdictKind) {
	p := t.subject(d.surge)
	switch {
	case p == nil || p.InPlace == InPlaceNone || p == t.restored: // one write for a pod in one plan
		return false, notHeld
	case p.Revision != d.in.Set.Update && d.in.Set.Strategy == RollingUpdate && t.hold == notHeld && !d.opensFirst(t, p):
		return d.supersede(t, p)
	case d.stuck(t, p):
		return d.giveUp(t, p)
	case p.InPlace == InPlacePatched:
		return false, d.await(t, p)
	case p.InPlace == InPlaceAnnounced:
		return d.resume(t, p)
	default:
		// The node runs the change; or nothing has been changed yet, and nothing is to be.
		d.queue.repair(t.act(Unmark, p, FinishingInPlace))
		return true, notHeld
	}
}

// opensFirst reports whether the gate of an old pod is opened before its update starts. A new pod has a closed gate, too: no update has begun there, and the pace
// of the policy says when it does. A pod that is Interrupted is no new one: where writes are slow, the gate that was closed for its update would be opened again and again.
func (d *decision) opensFirst(t *nodeContext, p *Pod) bool {
	return d.in.Gate != nil && d.in.Gate.Creates && p.InPlace == InPlaceArrived && !p.Interrupted && t.node.Refusal == nil
}

// subject is the pod of a node that a change in place can be about.
func (t *nodeContext) subject(surge bool) *Pod {
	switch {
	case !surge:
		return t.keep
	case t.current != nil:
		return t.current
	default:
		return t.old
	}
}

// supersede changes a pod that is old although, or because, a change in place is under way: it is patched, for the first
// time or once more, or recreated where that is not possible. It is not available already, so this takes no slot of the
// budget; and its node is already in flight, so Set.MaxReplacing does not apply. With surge the new pod is created like
// for any other old pod that is not available.
func (d *decision) supersede(t *nodeContext, p *Pod) (acts bool, waits VerdictKind) {
	if d.surge || t.live() != 1 || t.preparing > 0 {
		return false, notHeld
	}
	able, why := d.inPlace(t.node, p)
	if p.InPlace == InPlaceAnnounced && d.stuck(t, p) {
		able, why = false, p.Stuck
	}
	switch {
	case (p.InPlace == InPlaceMarked || p.InPlace == InPlaceArrived) && t.node.Refusal != nil && t.node.Refusal.Of == Patch:
		// The pod is as it was, or its node runs an earlier change. While a policy protects it, it serves, and leaves the budget to others.
		a := t.act(Unmark, p, FinishingInPlace)
		a.TakesBack = true
		d.queue.takeBack(a)
		return true, notHeld
	case able && p.InPlace == InPlaceAnnounced:
		return d.resume(t, p) // the patch must start from what the pod says to be
	case able && p.InPlace == InPlaceMarked && d.in.Now < p.GraceUntil:
		d.wakeAt(p.GraceUntil)
		return false, WaitGrace
	case able:
		d.queue.repair(t.patch(p, d.in.Set.Update))
		return true, notHeld
	case t.node.Blocked != "":
		return false, notHeld // there would be no new pod
	default:
		d.recreate(t, p, why)
		return true, notHeld
	}
}

func (d *decision) recreate(t *nodeContext, p *Pod, why Detail) {
	a := t.startDelete(p, Recreating)
	a.Detail = why
	d.queue.repair(a)
}

// giveUp recreates a current pod whose change in place can never be completed. It is not available, so this takes no slot of the
// budget. An old, held pod is not changed: its successor would have the same revision at best.
func (d *decision) giveUp(t *nodeContext, p *Pod) (acts bool, waits VerdictKind) {
	current := p.Revision == d.in.Set.Update && d.in.Set.Strategy == RollingUpdate
	if !current || t.live() != 1 || t.preparing > 0 || t.node.Blocked != "" || d.keepsOnly(t.node) {
		return false, WaitInPlace
	}
	d.recreate(t, p, p.Stuck)
	return true, notHeld
}

// await waits for the node of a pod that has been changed, as long as the change may take.
func (d *decision) await(t *nodeContext, p *Pod) VerdictKind {
	if p.Stuck == DetailNotRestarted {
		t.awaits = DetailRestarting
	}
	if p.Stuck != NoDetail && t.node.Ready {
		d.wakeAt(d.stuckAt(t.node, p))
	}
	return WaitInPlace
}

// resume continues a change that another controller has announced, when the grace period found there has ended.
func (d *decision) resume(t *nodeContext, p *Pod) (acts bool, waits VerdictKind) {
	if d.in.Now < p.GraceUntil {
		d.wakeAt(p.GraceUntil)
		return false, WaitGrace
	}
	d.queue.repair(t.act(Resume, p, UpdatingInPlace))
	return true, notHeld
}

// change starts the change in place of an old pod: it is patched. If its gate is to be closed it is made not ready first, and patched at once unless
// the set has a grace period; if the plan has no room for the patch, the next one does it.
func (d *decision) change(t *nodeContext, p *Pod) bool {
	if !d.in.Set.ClosesGate() {
		return d.begun(t.patch(p, d.in.Set.Update))
	}
	if !d.begun(t.act(Mark, p, UpdatingInPlace)) {
		return false
	}
	if d.in.Set.Grace <= 0 {
		d.begun(t.patch(p, d.in.Set.Update))
	}
	return true
}

func (t *nodeContext) patch(p *Pod, revision int) Action {
	a := t.act(Patch, p, UpdatingInPlace)
	a.Revision = revision
	return a
}
