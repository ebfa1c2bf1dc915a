// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// Failure is when a revision has failed.
type Failure struct {
	NodeDeadline time.Duration
	// WaveDeadline is 0 for no limit.
	WaveDeadline   time.Duration
	MaxFailedNodes rollout.Quantity
	MaxRestarts    int
	// Waiting are the reasons that make a node fail.
	Waiting rollout.Waiting
	// Undo reports whether nodes return to the committed revision.
	Undo bool
}

// Undo is how nodes return to the committed revision.
type Undo struct {
	NewestFirst, IgnoreWindows bool
	// MaxUnavailable is nil for no limit.
	MaxUnavailable *rollout.Quantity
}

// The defaults of a Failure.
const (
	defaultNodeDeadline = 10 * time.Minute
	defaultMaxRestarts  = 3
)

func (p *Policy) failure(from *v1alpha1.Failure) *Failure {
	if from == nil {
		return nil
	}
	f := &Failure{NodeDeadline: defaultNodeDeadline, WaveDeadline: length(from.WaveDeadline), MaxRestarts: defaultMaxRestarts, Undo: from.Action == v1alpha1.FailureUndo}
	if from.NodeDeadline != nil {
		f.NodeDeadline = length(from.NodeDeadline)
	}
	if from.MaxFailedNodes != nil && from.MaxFailedNodes.StrVal != "0%" {
		f.MaxFailedNodes = *p.quantity("spec.failure.maxFailedNodes", from.MaxFailedNodes)
	}
	if from.MaxRestarts != nil {
		f.MaxRestarts = int(*from.MaxRestarts)
	}
	for i, reason := range from.WaitingReasons {
		w := rollout.WaitingFor(reason)
		if w == rollout.WaitingNone {
			p.problem(fmt.Sprintf("spec.failure.waitingReasons[%d]", i), "%q is not a reason that can be judged", reason)
		}
		f.Waiting |= w
	}
	return f
}

func (p *Policy) undo(from *v1alpha1.Undo) Undo {
	if from == nil {
		return Undo{NewestFirst: true}
	}
	return Undo{
		NewestFirst: from.Order != v1alpha1.UndoByName, IgnoreWindows: from.IgnoreWindows,
		MaxUnavailable: p.quantity("spec.undo.maxUnavailable", from.MaxUnavailable),
	}
}

// hasFailedOn reports whether the revision has failed on a node, as far as it is judged.
func (r *run) hasFailedOn(i int) bool { return len(r.failed) > i && r.failed[i] != nil }

// judgeWave decides whether a wave has failed.
func (r *run) judgeWave(k int, st *v1alpha1.WaveStatus) {
	f := r.p.Failure
	st.Failed, st.FailedNodes = 0, nil
	if f == nil {
		st.Rolled = nil
		return
	}
	st.FailedNodes = r.failedGone(k)
	st.Failed = int32(len(st.FailedNodes))
	nodes := int(st.Nodes + st.Failed)
	for i, node := range r.failed {
		if node == nil || r.places[i] != place(k) {
			continue
		}
		if r.isLeftOut(i) {
			nodes++ // it went down with the revision
		}
		noteFailed(st, node)
	}
	most, late := r.waves[k].mayFail, r.late(k, st)
	switch {
	case r.out.Fail != nil:
	case st.Failed > most:
		r.fail(st.Name, fmt.Sprintf("Wave %s failed: %s, and %d may fail. %s", st.Name, nodesFailed(int(st.Failed), nodes), most, first(st.FailedNodes)))
	case late:
		r.fail(st.Name, fmt.Sprintf("Wave %s failed: after %s, %d of %d nodes have an available pod.", st.Name, f.WaveDeadline, st.Available, st.Nodes))
	}
}

func nodesFailed(failed, nodes int) string {
	return fmt.Sprintf("%d of %d nodes failed", failed, nodes)
}

// first describes the first of the failed nodes.
func first(failed []v1alpha1.FailedNode) string {
	parts := make([]string, 0, len(failed))
	for i := range failed[:min(len(failed), 3)] {
		parts = append(parts, fmt.Sprintf("%s (%s)", failed[i].Name, failed[i].Reason))
	}
	return "Nodes: " + strings.Join(parts, ", ") + "."
}

// late reports whether a wave exceeds its deadline. The time since the last decision counts if the wave was being updated at that decision, and an update had begun or was allowed to start. It starts again
// when the soak has ended, and not when it begins: otherwise pods that become available for a moment again and again would keep the wave for ever.
func (r *run) late(k int, st *v1alpha1.WaveStatus) bool {
	deadline := r.p.Failure.WaveDeadline
	switch {
	case deadline == 0 || st.Phase != v1alpha1.WaveRolling && st.Phase != v1alpha1.WaveSoaking:
		st.Rolled = nil
		return false
	}
	lacking := r.lacking(k)
	if lacking {
		r.out.Watch.lacked[st.Name] = true // unless stopTime finds that nothing may start
		if st.Rolled == nil {
			st.Rolled = &metav1.Duration{}
		}
	}
	if st.Rolled != nil && r.rolled() && r.lacked(st.Name) {
		st.Rolled.Duration += max(r.in.Elapsed, 0)
	}
	return lacking && st.Rolled.Duration >= deadline
}

// rolled reports whether the waves were going on at the last decision. Windows, alerts and analyses without an answer stop no update that has begun.
func (r *run) rolled() bool {
	return r.last != nil && (r.last.Phase == v1alpha1.PhaseRolling || r.last.Phase == v1alpha1.PhaseWaitingForWindow || blocks(r.last, blockedUnknown))
}

// lacked reports whether the time since the last decision counts for the deadline of a wave: its update was not complete then, and something could start or had begun.
func (r *run) lacked(wave string) bool {
	return r.watched(r.s.Set.Update) && r.in.Watch.lacked[wave]
}

// fail asks for the mark of a revision that has failed.
func (r *run) fail(wave, message string) {
	r.failure = &everynode.Failure{Number: r.revisionNumber(), Undo: r.p.Failure == nil || r.p.Failure.Undo, Wave: wave, Message: message}
	r.out.Fail = r.failure
}

// hasFailed reports whether the target has failed: the status reports a failure, or a user asks for the undo. If there is a status, a mark alone does not count, because
// others may have written it. If there is none, the mark holds the revision; what nodes return to is for a user to decide then.
func (r *run) hasFailed() bool {
	mark, asked := r.markedFailed(), r.decided(v1alpha1.UndoRollout, "")
	switch {
	case r.last != nil && r.last.Failure != nil:
		of := r.last.Failure
		f := everynode.Failure{Number: r.revisionNumber(), Undo: of.Action == v1alpha1.FailureUndo || asked != nil, Wave: of.Wave, Message: of.Message}
		if r.failure = &f; mark == nil || mark.Undo != f.Undo {
			r.out.Fail = &f
		}
	case asked != nil:
		r.fail("", requested(asked))
		r.failure.Undo = true
	case r.knowsNothing() && r.anyMarkedFailed() != nil:
		r.failure = r.failedByMark(r.anyMarkedFailed())
		r.out.Fail = r.failure
	case r.cameBack():
		if r.failure = r.failAgain(); mark == nil || mark.Undo {
			r.out.Fail = r.failure
		}
	}
	return r.failure != nil
}

// knowsNothing reports whether there is no status of the set: it was lost, or there never was one.
func (r *run) knowsNothing() bool { return r.in.Last == nil || r.in.Last.TargetRevision == "" }

// failedByMark is the failure of a revision that only its mark reports.
func (r *run) failedByMark(mark *everynode.Failure) *everynode.Failure {
	wave := mark.Wave
	if !slices.ContainsFunc(r.p.Waves, func(w Wave) bool { return w.Name == wave }) {
		wave = ""
	}
	return &everynode.Failure{Number: r.revisionNumber(), Wave: wave, Message: fmt.Sprintf(
		"The status of the policy was lost, and the annotation %s of ControllerRevision %s says that the revision has failed: %s If nodes have it, a RolloutApproval with the decision Undo lets them return.",
		everynode.Failed, r.target().Name, Shortened(mark.Message, longestMessage))}
}

// reportUnconfirmed reports that the target has a mark that does not count. A mark of an attempt that a retry has ended is removed.
func (r *run) reportUnconfirmed() {
	if r.markedFailed() == nil || r.failure != nil || r.out.Status.Failure != nil || r.atRest() || r.out.Retry {
		return
	}
	if r.attempt > 1 && r.decided(v1alpha1.Retry, "") != nil {
		r.out.Retry = true
		return
	}
	r.block("UnconfirmedFailure", fmt.Sprintf("ControllerRevision %s has the annotation %s, but the status of the policy reports no failure, so the annotation does not count: "+
		"another account wrote it, or the manager ended before it had written the status. If the revision failed, change the template or create a RolloutApproval with the decision Undo or Reject; otherwise remove the annotation.",
		r.target().Name, everynode.Failed))
}

// afterFailure is what a policy allows after the target has failed.
func (r *run) afterFailure() {
	r.out.Watch = r.in.Watch // for a retry
	switch {
	case r.failure.Undo && r.mayUndo() && r.s.Set.ExternalController:
		r.holdAll(rollout.WaitFailed)
		r.revert()
	case r.failure.Undo && r.mayUndo() && r.undo():
	default:
		r.returned = r.failure.Undo && r.mayUndo()
		r.hold()
	}
}

// hold prevents all starts after a failure. The status shows the state that the waves have reached.
func (r *run) hold() {
	st := r.out.Status
	r.holdAll(rollout.WaitFailed)
	st.Phase, st.Wave = v1alpha1.PhaseFailed, r.failure.Wave
	r.reportFailure()
	remedy := "Change the template, or create a RolloutApproval with the decision Retry."
	if no := r.decided(v1alpha1.Reject, ""); no != nil { // it keeps a retry from having an effect
		remedy = fmt.Sprintf("Change the template, or delete rolloutapproval/%s with the rejection and then create one with the decision Retry.", no.Name)
	}
	switch {
	case r.failure.Undo && !r.mayUndo():
		r.block(blockedNoUndo, r.failure.Message+" The undo is not possible, because "+r.noUndo()+". "+remedy)
	case r.failure.Undo && (r.last == nil || r.last.Failure == nil): // the last status does not report the failure yet
		r.block(blockedFailed, r.failure.Message+" "+r.unreached("The nodes return to the committed revision next."))
	case r.failure.Undo:
		r.block(blockedFailed, r.failure.Message+" "+r.unreached(r.returnedText("the committed revision"))+" "+remedy)
	default:
		r.block(blockedFailed, r.failure.Message+" "+remedy)
	}
}

// holdRejected holds a revision that a user has rejected.
func (r *run) holdRejected() {
	r.keepWatch()
	r.out.Status.Phase, r.out.Status.RejectedRevision = v1alpha1.PhaseRejected, r.target().Name
	r.holdAll(rollout.WaitRejected)
	which := "the RolloutApproval with the rejection"
	if a := r.decided(v1alpha1.Reject, ""); !r.named(a) {
		which = fmt.Sprintf("rolloutapproval/%s, which names the policy %s", a.Name, a.Spec.Policy)
	}
	r.block("Rejected", "The revision was rejected: change the template, or delete "+which+".")
}

// mostNamed is how many nodes most messages name.
const mostNamed = 3

// some are the first of several names, and how many more there are.
func some(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if rest := len(names) - most; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

func (r *run) reportFailure() {
	st, f := r.out.Status, r.failure
	st.RejectedRevision = r.target().Name
	st.Failure = &v1alpha1.RolloutFailure{Wave: f.Wave, Action: v1alpha1.FailurePause, Message: f.Message, At: second(r.s.Now)}
	if r.last != nil && r.last.Failure != nil {
		was := r.last.Failure
		st.Failure.At, st.Failure.UndoAt, st.Failure.NewestPod = was.At, was.UndoAt, was.NewestPod
	}
	later := r.undoBeginsLater()
	if later {
		st.Failure.UndoAt = second(r.s.Now)
	}
	if later || r.last == nil || r.last.Failure == nil {
		st.Failure.NewestPod = r.newestPod()
	}
	if f.Undo {
		st.Failure.Action = v1alpha1.FailureUndo
	}
}

// noUndo is the reason why nodes cannot return to the committed revision; empty if they can.
func (r *run) noUndo() string {
	switch {
	case r.lost:
		return r.lostText()
	case !r.marked && !r.recorded:
		return "no revision has passed all waves yet"
	case r.s.Set.ExternalController:
		return r.ownersOfTemplate()
	default:
		return ""
	}
}

func (r *run) mayUndo() bool { return r.noUndo() == "" }

// undo lets nodes with another revision return to the committed one, and reports whether there are any.
func (r *run) undo() bool {
	was, standing, left, kept := r.s, r.standing, r.left, r.keptBySet()
	s := *r.s
	s.Gate = nil
	r.fitCommitted(&s)
	returnTo(&s.Set, r.committed)
	r.s, r.serving, r.charging = &s, nil, nil
	r.measure()
	behind, others := false, 0
	for i := range r.standing {
		st := &r.standing[i]
		if r.holds[i] = kept(i); r.holds[i] != rollout.NotEvaluated {
			continue
		}
		keeps, down := st.AwaitsUpdate && r.onlyKeeps(i), r.isLeftOut(i) && !r.mayFlap(i)
		behind = behind || !down && !keeps && ((st.AwaitsUpdate || st.UnderWay) && r.returns(&s.Nodes[i]) || r.wouldGet(&s.Nodes[i]))
		if st.AwaitsUpdate && !down && !keeps {
			others++
		}
	}
	r.undoing, r.from = true, r.template
	r.reportFailure()
	r.judgeNodes()
	st := r.out.Status
	if !behind && !r.awaitsReturned() {
		r.s, r.standing, r.left, r.serving, r.charging = was, standing, left, nil, nil
		r.undoing, r.failed, r.out.Watch, st.NotReadyBefore = false, nil, r.in.Watch, nil
		return false
	}
	r.out.Wanted, r.returning, r.restricts = r.committed, true, true
	st.Phase, st.Wave = v1alpha1.PhaseUndoing, r.failure.Wave
	r.block(blockedFailed, r.failure.Message+" The nodes return to the committed revision.")
	if r.p.Suspend {
		r.suspend()
	} else {
		r.windowsOfUndo()
	}
	r.blockedBySet("nodes may not return")
	r.blockedByRefusals(nowhere)
	r.blockedEnd(others)
	r.out.MaxUnavailable = r.undoLimit()
	r.judgeUndo()
	return true
}

// ClosedWindow is the reason in a status while no window is open.
const ClosedWindow = "Window"

// windowsOfUndo holds nodes that return to the committed revision while no window is open. Those that have missed its rollout wait for a window also if an undo does not.
func (r *run) windowsOfUndo() {
	kind, until := r.p.closed(r.s.Now)
	if kind == rollout.NotEvaluated {
		return
	}
	why, action, so := "No window is open", v1alpha1.ActionOpenWindow, "no node returns: set spec.undo.ignoreWindows to let them return now."
	if kind == rollout.WaitFreeze {
		why, action = "A freeze is active", v1alpha1.ActionEndFreeze
	}
	switch {
	case !r.p.Undo.IgnoreWindows:
		r.holdReleased(kind)
	case r.out.Status.Phase != v1alpha1.PhaseUndoing && r.holdMissed(kind):
		so = "no node is updated that the rollout of the committed revision has left out."
	default:
		return
	}
	r.wakeAt(until)
	r.block(ClosedWindow, why+", so "+so)
	r.next(action, until)
	if r.out.Status.Phase == v1alpha1.PhaseRolling && !r.releases() {
		r.out.Status.Phase = v1alpha1.PhaseWaitingForWindow
	}
}

// returnTo has a set return to a revision. Its partition and its selector keep nodes from the new revision, and keep none on it.
func returnTo(set *rollout.Set, revision int) {
	set.Update, set.Partition, set.Selective = revision, rollout.Quantity{}, false
}

// returns reports whether a node has a live pod that is not of the committed revision, or is being changed.
func (r *run) returns(n *rollout.Node) bool {
	return slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool {
		return !p.Deleting && (p.Revision != r.committed || p.InPlace != rollout.InPlaceNone)
	})
}

// wouldGet reports whether a node without a live pod would get one of the failed revision again if it was not returning: its last pod was of that revision.
func (r *run) wouldGet(n *rollout.Node) bool {
	return member(r.s, n) && n.Last == r.template && !slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool { return !p.Deleting })
}

// blockedFailed is the reason in blocking for a revision that has failed.
const blockedFailed = "Failed"

// blockedNoUndo is the reason in blocking for a revision that has failed while its undo is not possible.
const blockedNoUndo = "UndoNotPossible"

// blockedUndoFailed is the reason in blocking for an undo that has failed.
const blockedUndoFailed = "UndoFailed"

// UndoStopped reports whether a status says that an undo has stopped, because the committed revision does not work either.
func UndoStopped(st *v1alpha1.SetStatus) bool { return blocks(st, blockedUndoFailed) }

// failedUndo returns the nodes on which the committed revision does not work either, and how many there may be.
func (r *run) failedUndo() (nodes []v1alpha1.FailedNode, most int) {
	members := 0
	for i := range r.s.Nodes {
		if member(r.s, &r.s.Nodes[i]) && !r.isLeftOut(i) {
			members++
		}
		if r.failed[i] != nil {
			nodes = append(nodes, *r.failed[i])
		}
	}
	return nodes, r.p.Failure.MaxFailedNodes.Down(members)
}

// judgeUndo stops an undo that also fails: the committed revision no longer works either. Nodes that are not ready do not count.
func (r *run) judgeUndo() {
	if r.p.Failure == nil {
		r.blockedByBudget(nowhere)
		return
	}
	nodes, most := r.failedUndo()
	if len(nodes) <= most {
		r.blockedByBudget(nowhere)
		return
	}
	r.holdReleased(rollout.WaitFailed)
	remedy := "Make these pods work, or change the template."
	if r.failure != nil {
		remedy = "Make these pods work, change the template, or create a RolloutApproval with the decision Retry to roll out the new revision again."
	}
	text := fmt.Sprintf("The undo has stopped: on %s the committed revision does not work either, and %d may fail. %s %s", nodeCount(int32(len(nodes))), most, first(nodes), remedy)
	st := r.out.Status
	for i := range st.Blocking {
		if r.failure != nil && st.Blocking[i].Reason == blockedFailed {
			st.Blocking[i].Message = r.failure.Message // the nodes do not return now
		}
	}
	st.Phase, st.Blocking = v1alpha1.PhaseFailed, slices.Insert(st.Blocking, 0, v1alpha1.Blocking{Reason: blockedUndoFailed, Message: text})
}

// retry begins an attempt, and asks for the removal of the mark. From now on, the revision is judged as if it had just come to the nodes that have it.
func (r *run) retry() {
	r.out.Retry = true
	r.holdAll(rollout.WaitFailed) // until the mark is gone
	st := r.out.Status
	st.Attempt = r.attempt
	st.Phase, st.StartedAt, st.Failure, st.RejectedRevision = v1alpha1.PhaseRolling, second(r.s.Now), nil, ""
	r.block("Retry", "The revision is rolled out again, from the first wave.")
	if r.last != nil && r.last.Failure != nil {
		r.event(false, ReasonRolloutRetried, "Revision %s is rolled out again.", st.TargetRevision)
	}
	r.out.Watch = r.newWatch(r.template)
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		w := watched{retried: !r.standing[i].Available && (!r.standing[i].AwaitsUpdate || r.returnsHere(i))}
		if p := r.podOf(n); p != nil {
			w.uid, w.restarts = p.UID, p.Restarts
		}
		if r.in.Watch != nil {
			w.joined = r.in.Watch.nodes[n.Name].joined && !r.standing[i].Available
		}
		if member(r.s, n) && (w.retried || w.joined || w.uid != "") {
			r.out.Watch.nodes[n.Name] = w
		}
	}
}

// returnsHere reports whether the undo has taken the pod of a node, and the one of the committed revision is not available yet.
func (r *run) returnsHere(i int) bool {
	if r.in.Watch == nil || r.watched(r.template) || r.in.Watch.number != r.number() {
		return false
	}
	w, known := r.in.Watch.nodes[r.s.Nodes[i].Name]
	return known && !w.before && !r.serves(i)
}
