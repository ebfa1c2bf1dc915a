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
	// Waiting are the reasons that make a node fail, as bits.
	Waiting uint32
	// Undo is whether nodes return to the committed revision.
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
			p.problem(fmt.Sprintf("spec.failure.waitingReasons[%d]", i), "%q is no reason that can be judged", reason)
		}
		f.Waiting |= 1 << w
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

// Watch is what is noted of the nodes of a set from one decision to the next. Losing it makes deadlines begin again, so it never makes a revision fail.
type Watch struct {
	// of is the index of the revision that is being judged, and number that of the rollout.
	of     int
	number int64
	nodes  map[string]watched
}

// watched is what is noted of a node.
type watched struct {
	// uid is that of the pod of the revision; empty before there is one.
	uid string
	// down is how long the node has had no available pod of the revision, as far as that counts.
	down time.Duration
	// restarts are those of the pod that do not count.
	restarts uint16
	// before is whether the node had no available pod when its update began, and has had none since.
	before bool
}

// maxNames is how many nodes that were not ready before a status names.
const maxNames = 256

// maxFailed is how many failed nodes of a wave a status describes.
const maxFailed = 10

// judgeNodes finds the nodes on which the wanted revision has failed, and notes what the next decision needs to know.
func (r *run) judgeNodes() {
	if r.p.Failure == nil {
		return
	}
	before := r.earlier()
	r.out.Watch = &Watch{of: r.s.Set.Update, number: r.number(), nodes: map[string]watched{}}
	r.failed = make([]*v1alpha1.FailedNode, len(r.s.Nodes))
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if !member(n) {
			continue
		}
		w, known := before.nodes[n.Name]
		w, keep := r.watch(i, w, known)
		if keep {
			r.out.Watch.nodes[n.Name] = w
		}
		if !r.left[i] && (keep || r.podOf(n) != nil) {
			r.failed[i] = r.verdict(i, &w)
		}
		if keep && w.before && r.out.Status != nil && len(r.out.Status.NotReadyBefore) < maxNames {
			r.out.Status.NotReadyBefore = append(r.out.Status.NotReadyBefore, n.Name)
		}
	}
}

// earlier is what the last decision noted of nodes. For a decision about another revision, and for another manager, only those count that were not ready
// before.
func (r *run) earlier() *Watch {
	was := r.in.Watch
	if was != nil && was.of == r.s.Set.Update && was.number == r.number() {
		return was
	}
	out := &Watch{nodes: map[string]watched{}}
	switch {
	case was != nil && was.number == r.number():
		for name := range was.nodes {
			if was.nodes[name].before {
				out.nodes[name] = watched{before: true}
			}
		}
	case r.last != nil:
		for _, name := range r.last.NotReadyBefore {
			out.nodes[name] = watched{before: true}
		}
	}
	return out
}

// podOf is the live pod of the wanted revision on a node; nil for none.
func (r *run) podOf(n *rollout.Node) *rollout.Pod {
	for k := range n.Pods {
		if p := &n.Pods[k]; !p.Deleting && p.Revision == r.s.Set.Update {
			return p
		}
	}
	return nil
}

// watch brings what is noted of a node up to date, and reports whether there is anything to note.
func (r *run) watch(i int, w watched, known bool) (_ watched, keep bool) {
	n, st := &r.s.Nodes[i], &r.standing[i]
	p := r.podOf(n)
	switch {
	case p == nil && st.AwaitsUpdate:
		if r.serving == nil {
			r.serving = r.s.Serving()
		}
		broken := len(n.Pods) > 0 && !r.serving(i)
		if r.out.Wanted >= 0 { // that a pod of the failed revision is not available says nothing of the node
			return watched{before: w.before || broken && n.Pods[0].Revision != r.template}, len(n.Pods) > 0
		}
		return watched{before: true}, broken
	case p == nil:
		if len(n.Pods) > 0 {
			return w, known // the old one is terminating
		}
		if known && refused(n) && n.Ready {
			w.down += r.in.Elapsed
		}
		return w, true
	case st.Available:
		w.down, w.before = 0, false
	case !known && r.out.Wanted >= 0:
		w.before = true // the undo has not touched it, as far as is known
	case known && !p.Ready && (n.Ready || wentDown(n, p, r.p.Failure.NodeDeadline)):
		w.down += max(r.in.Elapsed, 0)
	}
	if w.uid != p.UID {
		w.uid, w.restarts = p.UID, r.earlierRestarts(p)
	}
	return w, !st.Available || w.restarts > 0 || r.s.Set.InPlace || known && r.out.Wanted >= 0
}

// refused is whether the API server refuses to create a pod on a node.
func refused(n *rollout.Node) bool { return n.Refusal != nil || n.Blocked != "" }

// wentDown is whether a node stopped being ready soon after it got a pod: the pod may be why.
func wentDown(n *rollout.Node, p *rollout.Pod, within time.Duration) bool {
	return !n.Ready && p.Created <= n.Since && n.Since <= p.Created.Add(within)
}

// earlierRestarts are the restarts of a pod before it was changed in place; the change itself is one.
func (r *run) earlierRestarts(p *rollout.Pod) uint16 {
	switch {
	case !r.s.Set.InPlace || r.s.Revisions[r.s.Set.Update].Created <= p.Created:
		return 0
	case p.InPlace == rollout.InPlacePatched || p.InPlace == rollout.InPlaceAnnounced:
		return p.Restarts + 1
	default:
		return p.Restarts
	}
}

// verdict says why the revision has failed on a node; nil if it has not.
func (r *run) verdict(i int, w *watched) *v1alpha1.FailedNode {
	n, f := &r.s.Nodes[i], r.p.Failure
	if w.before {
		return nil
	}
	out := &v1alpha1.FailedNode{Name: n.Name}
	p := r.podOf(n)
	if p != nil {
		out.Pod = p.Name
		switch {
		case n.Ready && !p.Ready && p.Waiting != rollout.WaitingNone && f.Waiting&(1<<p.Waiting) != 0:
			out.Reason = p.Waiting.String()
			out.Message = fmt.Sprintf("A container of pod %s waits because of %s.", p.Name, out.Reason)
			return out
		case n.Ready && int(p.Restarts)-int(w.restarts) > f.MaxRestarts:
			out.Reason, out.Message = "Restarts", fmt.Sprintf("The containers of pod %s were restarted %d times, and %d are allowed.", p.Name, int(p.Restarts)-int(w.restarts), f.MaxRestarts)
			if p.Waiting != rollout.WaitingNone {
				out.Reason = p.Waiting.String()
			}
			return out
		}
	}
	if r.standing[i].Available || p != nil && p.Ready {
		return nil
	}
	if rest := f.NodeDeadline - w.down; rest > 0 {
		r.wakeAt(r.s.Now.Add(rest))
		return nil
	}
	switch {
	case p == nil:
		out.Reason, out.Message = "CreateRefused", "The pod cannot be created: "+shortened(n.Obstacle())
	case !n.Ready:
		out.Reason, out.Message = "NodeNotReady", fmt.Sprintf("The node stopped being ready after it had got pod %s.", p.Name)
	default:
		out.Reason, out.Message = "NotAvailable", fmt.Sprintf("Pod %s has not been available for %s.", p.Name, f.NodeDeadline)
		if p.Waiting != rollout.WaitingNone {
			out.Reason = p.Waiting.String()
		}
	}
	return out
}

// longestMessage is how many characters of an answer of the API server a status repeats for a node.
const longestMessage = 256

func shortened(text string) string {
	if letters := []rune(text); len(letters) > longestMessage {
		return string(letters[:longestMessage]) + "..."
	}
	return text
}

// judgeWave decides whether a wave has failed.
func (r *run) judgeWave(k int, st *v1alpha1.WaveStatus) {
	f := r.p.Failure
	st.Failed, st.FailedNodes = 0, nil
	if f == nil {
		st.Rolled = nil
		return
	}
	for i, node := range r.failed {
		if node == nil || r.places[i] != place(k) {
			continue
		}
		if st.Failed++; len(st.FailedNodes) < maxFailed {
			st.FailedNodes = append(st.FailedNodes, *node)
		}
	}
	most := f.MaxFailedNodes.Of(int(st.Nodes))
	late := r.late(st)
	switch {
	case r.out.Fail != nil:
	case int(st.Failed) > most:
		r.fail(st.Name, fmt.Sprintf("Wave %s failed: %s, and %d may fail. %s", st.Name, nodesFailed(int(st.Failed), int(st.Nodes)), most, first(st.FailedNodes)))
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

// late is whether a wave takes longer than it may. The time since the last decision counts if the wave was being updated then, and something might start.
func (r *run) late(st *v1alpha1.WaveStatus) bool {
	deadline := r.p.Failure.WaveDeadline
	if deadline == 0 || st.Phase != v1alpha1.WaveRolling || st.Available >= st.Nodes {
		st.Rolled = nil
		return false
	}
	if st.Rolled == nil {
		st.Rolled = &metav1.Duration{}
	}
	if r.last != nil && r.last.Phase == v1alpha1.PhaseRolling && !r.s.Set.Paused {
		st.Rolled.Duration += max(r.in.Elapsed, 0)
	}
	if rest := deadline - st.Rolled.Duration; rest > 0 {
		r.wakeAt(r.s.Now.Add(rest))
		return false
	}
	return true
}

// fail asks for the mark of a revision that has failed.
func (r *run) fail(wave, message string) {
	r.failure = &everynode.Failure{Number: r.number(), Undo: r.p.Failure == nil || r.p.Failure.Undo, Wave: wave, Message: message}
	r.out.Fail = r.failure
}

// hasFailed is whether the target has failed: its mark is the evidence, or the status if the mark could not be written, or a user asks for the undo.
func (r *run) hasFailed() bool {
	mark := r.target().Failed
	switch asked := r.once(v1alpha1.UndoRollout); {
	case mark != nil && mark.Number == r.number():
		r.failure = mark
		if asked != nil && !mark.Undo { // after a pause
			r.fail(mark.Wave, mark.Message)
			r.failure.Undo = true
		}
	case r.last != nil && r.last.Failure != nil:
		of := r.last.Failure
		r.fail(of.Wave, of.Message)
		r.failure.Undo = of.Action == v1alpha1.FailureUndo || asked != nil
	case asked != nil:
		r.fail("", strings.TrimSpace(fmt.Sprintf("The undo was requested by %s. %s", asked.Spec.By, asked.Spec.Reason)))
		r.failure.Undo = true
	}
	return r.failure != nil
}

// afterFailure is what a policy allows after the target has failed.
func (r *run) afterFailure() {
	if r.once(v1alpha1.Retry) != nil {
		r.retry()
		return
	}
	r.out.Watch = r.in.Watch // for a retry
	if r.failure.Undo && r.mayUndo() && r.undo() {
		return
	}
	r.hold()
}

// hold lets nothing start after a failure. Its status has what the waves have come to.
func (r *run) hold() {
	st := r.out.Status
	r.holdAll(rollout.WaitFailed)
	st.Phase, st.Wave = v1alpha1.PhaseFailed, r.failure.Wave
	r.reportFailure()
	remedy := "Change the template, or create a RolloutApproval with the decision Retry."
	switch {
	case r.failure.Undo && !r.mayUndo():
		r.block("UndoNotPossible", r.failure.Message+" The undo is not possible, because "+r.noUndo()+". "+remedy)
	case r.failure.Undo:
		r.block("Failed", r.failure.Message+" The nodes have returned to the committed revision. "+remedy)
	default:
		r.block("Failed", r.failure.Message+" "+remedy)
	}
}

func (r *run) reportFailure() {
	st, f := r.out.Status, r.failure
	st.RejectedRevision = r.target().Name
	st.Failure = &v1alpha1.RolloutFailure{Wave: f.Wave, Action: v1alpha1.FailurePause, Message: f.Message}
	if f.Undo {
		st.Failure.Action = v1alpha1.FailureUndo
	}
}

// noUndo is why nodes cannot return to the committed revision; empty if they can.
func (r *run) noUndo() string {
	switch {
	case r.s.Set.ExternalController:
		return "another controller creates the pods from the template"
	case !r.marked:
		return "no revision has passed all waves yet"
	default:
		return ""
	}
}

func (r *run) mayUndo() bool { return r.noUndo() == "" }

// undo lets nodes with another revision return to the committed one, and reports whether there are any.
func (r *run) undo() bool {
	was, standing, left := r.s, r.standing, r.left
	s := *r.s
	s.Set.Update, s.Gate = r.committed, nil
	r.s, r.serving = &s, nil
	r.measure()
	behind := false
	for i := range r.standing {
		st := &r.standing[i]
		behind = behind || !r.left[i] && ((st.AwaitsUpdate || st.UnderWay) && r.returns(&s.Nodes[i]) || r.wouldGet(&s.Nodes[i]))
	}
	if !behind {
		r.s, r.standing, r.left, r.serving = was, standing, left, nil
		return false
	}
	r.out.Wanted, r.out.MaxUnavailable, r.returning, r.restricts = r.committed, r.p.Undo.MaxUnavailable, true, true
	st := r.out.Status
	st.Phase, st.Wave = v1alpha1.PhaseUndoing, r.failure.Wave
	r.reportFailure()
	r.block("Failed", r.failure.Message+" The nodes return to the committed revision.")
	kind, until := r.p.closed(r.s.Now)
	switch {
	case r.p.Suspend:
		r.suspend()
	case kind != rollout.NotEvaluated && !r.p.Undo.IgnoreWindows:
		r.holdReleased(kind)
		r.wakeAt(until)
		r.block("Window", "No window is open, or a freeze is active, so no node returns: set spec.undo.ignoreWindows to let them return now.")
	}
	r.blockedBySet()
	r.judgeUndo()
	return true
}

// returns is whether a node has a live pod that is not of the committed revision, or is being changed.
func (r *run) returns(n *rollout.Node) bool {
	return slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool {
		return !p.Deleting && (p.Revision != r.committed || p.InPlace != rollout.InPlaceNone)
	})
}

// wouldGet is whether a node without a live pod would get one of the failed revision again if it was not returning: its last pod was of that revision.
func (r *run) wouldGet(n *rollout.Node) bool {
	return member(n) && n.Last == r.template && !slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool { return !p.Deleting })
}

// judgeUndo stops an undo that fails as well: the committed revision does not work any more either.
func (r *run) judgeUndo() {
	if r.p.Failure == nil {
		return
	}
	r.judgeNodes()
	members, failed := 0, 0
	for i := range r.s.Nodes {
		if member(&r.s.Nodes[i]) && !r.left[i] {
			members++
		}
		if r.failed[i] != nil {
			failed++
		}
	}
	if most := r.p.Failure.MaxFailedNodes.Of(members); failed > most {
		r.holdReleased(rollout.WaitFailed)
		nodes := slices.DeleteFunc(slices.Clone(r.failed), func(f *v1alpha1.FailedNode) bool { return f == nil })
		r.block("UndoFailed", fmt.Sprintf("The undo has stopped: on %d nodes the committed revision does not work either, for example on %s (%s).", failed, nodes[0].Name, nodes[0].Reason))
	}
}

// retry asks for the removal of the mark. Nodes on which the revision has failed do not count until they have had an available pod.
func (r *run) retry() {
	r.out.Retry, r.out.Fail = true, nil
	r.holdAll(rollout.WaitFailed) // until the mark is gone
	st := r.out.Status
	st.Phase, st.StartedAt = v1alpha1.PhaseRolling, second(r.s.Now)
	r.block("Retry", "The revision is rolled out again, from the first wave.")
	if r.last != nil && r.last.Failure != nil {
		r.event(false, ReasonRolloutRetried, "Revision %s is rolled out again.", st.TargetRevision)
	}
	r.out.Watch = &Watch{of: r.template, number: r.number(), nodes: map[string]watched{}}
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if p := r.podOf(n); p != nil && member(n) {
			w := watched{uid: p.UID, restarts: p.Restarts, before: !r.standing[i].Available}
			r.out.Watch.nodes[n.Name] = w
			if w.before && len(st.NotReadyBefore) < maxNames {
				st.NotReadyBefore = append(st.NotReadyBefore, n.Name)
			}
		}
	}
}
