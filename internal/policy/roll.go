// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// settle returns what a policy allows while the template describes the committed revision: nodes with another one return to it, without waves.
func (r *run) settle() {
	st := r.out.Status
	r.findReverted()
	r.judgeNodes() // for those that were broken before the rollout that has ended
	r.leaveOutBroken()
	behind, others, going, back, absent, staying := 0, 0, 0, 0, 0, false
	for i := range r.s.Nodes {
		old := r.standing[i].AwaitsUpdate && len(r.s.Nodes[i].Pods) > 0
		staying = staying || old && !member(r.s, &r.s.Nodes[i])
		if member(r.s, &r.s.Nodes[i]) && !r.standing[i].Available {
			behind++
			switch {
			case old && r.isLeftOut(i):
				absent++
			case old:
				others++
			}
			if r.standing[i].UnderWay && !r.isLeftOut(i) && !r.hasFailedOn(i) { // the rollout has ended without nodes that may fail
				if going++; r.s.Nodes[i].Ready || old { // one that is down, with the committed revision, has returned
					back++
				}
			}
		}
	}
	undone := r.in.Last != nil && (r.in.Last.Phase == v1alpha1.PhaseUndoing || blocks(r.in.Last, blockedUndoFailed) || r.in.Last.TargetRevision != "" && r.in.Last.TargetRevision != r.in.Last.CommittedRevision)
	switch {
	case behind == 0:
		st.Phase = v1alpha1.PhaseComplete
	case r.p.Suspend && others+absent > 0:
		st.Phase = v1alpha1.PhaseSuspended
		r.blockSuspended()
	case undone && others+absent+back > 0 && r.target().Name == r.in.Last.CommittedRevision:
		st.Phase = v1alpha1.PhaseUndoing
	case others > 0 || going > 0 && r.last != nil && (r.last.Phase == v1alpha1.PhaseRolling || r.last.Phase == v1alpha1.PhaseWaitingForWindow):
		st.Phase = v1alpha1.PhaseRolling
	default:
		st.Phase = v1alpha1.PhaseComplete // a pod that is not available for another reason is not a rollout
	}
	r.returning = st.Phase == v1alpha1.PhaseUndoing || st.Phase == v1alpha1.PhaseRolling || st.Phase == v1alpha1.PhaseSuspended && others+absent > 0
	r.goBack()
	if r.returning {
		r.blockedByRefusals(nowhere)
	}
	if r.returning && others > 0 {
		r.blockedBySet("nodes may not return")
	}
	r.blockedEnd(others)
	switch {
	case others+absent == 0 && !staying:
	case r.p.Suspend:
		r.holdReleased(rollout.WaitSuspended) // also what only keeps the pod that it has
	case !blocks(st, ClosedWindow):
		r.windowsOfUndo()
	}
	if r.returning && !r.undoing {
		r.blockedByBudget(nowhere)
	}
	if st.Phase == v1alpha1.PhaseComplete {
		r.foresee(behind)
	}
}

// The reasons in a status while a wave cannot begin, or could not, because of the labels of nodes.
const (
	emptyWave         = "EmptyWave"
	orderLabelMissing = "OrderLabelMissing"
)

// foresee reports that no pod is available, and where the next rollout would stop because of the labels that nodes have now. behind is how many nodes have no available pod.
func (r *run) foresee(behind int) {
	r.blockedWithoutPods(behind)
	for k := range r.p.Waves {
		w, none := &r.p.Waves[k], true
		for i := 0; i < len(r.s.Nodes) && none && w.Selector != nil; i++ {
			none = !member(r.s, &r.s.Nodes[i]) || !w.matches(r.in.Labels[i])
		}
		if w.Selector != nil && none {
			r.block(emptyWave, "The next rollout stops before this wave: "+r.emptyText(k))
		}
	}
	if len(r.s.Nodes) > 0 && !r.labelled() {
		r.block(orderLabelMissing, "The next rollout stops before its first wave: "+r.unlabelledText())
	}
}

func (r *run) emptyText(k int) string {
	return fmt.Sprintf("spec.waves[%d].nodes.selector selects no node of the daemon set, so the wave %s cannot begin: label nodes, or change the selector.", k, r.p.Waves[k].Name)
}

func (r *run) unlabelledText() string {
	return fmt.Sprintf("No node of the daemon set has the label %s of spec.order.topologyKey, so there is no order: label nodes, or change the key.", r.p.TopologyKey)
}

func (r *run) suspend() {
	r.holdReleased(rollout.WaitSuspended)
	r.blockSuspended()
}

func (r *run) blockSuspended() {
	r.block("Suspended", "The policy is suspended: set spec.suspend to false to continue.")
}

// labelled reports whether a node has the label by which nodes are grouped, if there is one.
func (r *run) labelled() bool {
	if r.p.TopologyKey == "" {
		return true
	}
	for i := range r.s.Nodes {
		if _, has := r.in.Labels[i][r.p.TopologyKey]; has && member(r.s, &r.s.Nodes[i]) {
			return true
		}
	}
	return false
}

// roll goes through the waves of a rollout.
func (r *run) roll() {
	var unmatched []bool
	r.findBegun()
	defer r.nameBegun()
	r.places, unmatched = r.assign()
	r.judgeNodes()
	r.leaveOutBroken()
	r.count()
	for k := range r.p.Waves {
		r.out.Status.Waves = append(r.out.Status.Waves, r.wave(k))
		r.judgeWave(k, &r.out.Status.Waves[k]) // a wave that cannot begin hides no failure of another one
	}
	active := 0
	for ; active < len(r.p.Waves); active++ {
		if reason, message := r.stops(active, unmatched[active]); reason != "" {
			if r.out.Fail == nil {
				r.stallBefore(active, reason, message)
				return
			}
			break
		}
		if !r.advance(active, &r.out.Status.Waves[active], r.waves[active].absent) {
			break
		}
		r.out.Questions, r.unmet, r.overdue = nil, nil, ""
	}
	r.noteBegun(active)
	if r.out.Fail != nil {
		r.hold()
		return
	}
	if active == len(r.p.Waves) {
		r.out.Status.Phase = v1alpha1.PhaseRolling
		if r.waits() {
			shut := r.shut()
			if r.blockOnAlerts() || shut || r.empties() {
				return
			}
		}
		r.commit(r.s.Set.Update)
		return
	}
	if r.overdue != "" {
		r.holdOverdue(r.out.Status.Waves[active].Name)
		return
	}
	if r.release(active); r.out.Status.Phase == v1alpha1.PhaseStalled {
		return
	}
	r.awaitNotes()
	r.limit(active)
}

// stops returns why the rollout stops before a wave that cannot begin or go on without a person; empty if it does not.
func (r *run) stops(k int, unmatched bool) (reason, message string) {
	w := &r.out.Status.Waves[k]
	open := w.Phase != v1alpha1.WavePassed
	switch {
	case open && r.p.Waves[k].limited() && w.Nodes == 0 && w.Gone == 0 && r.unneeded():
		return NoNodeEligible, unneededText
	case unmatched && open && w.Gone == 0:
		return emptyWave, r.emptyText(k)
	case open && w.Nodes > 0 && !r.labelled():
		return orderLabelMissing, r.unlabelledText()
	case r.deserted(k):
		r.halt.step = w.Gone + r.waves[k].absent
		return NodesGone, r.desertedText(k)
	default:
		return "", ""
	}
}

// stallBefore stops the rollout before a wave.
func (r *run) stallBefore(k int, reason, message string) {
	r.out.Status.Wave = r.p.Waves[k].Name
	r.stall(rollout.WaitPolicy, reason, message)
}

// deserted reports whether nodes of a wave on which the update has begun are gone, and no other may take their places: the revision may be the reason. Nodes that are
// left out show nothing either.
func (r *run) deserted(k int) bool {
	w := &r.out.Status.Waves[k]
	open := w.Phase != v1alpha1.WavePassed && w.Phase != v1alpha1.WaveWaitingForApproval // else it has soaked
	return open && w.Gone > 0 && w.Nodes == 0 && r.goesOn(k).step < w.Gone
}

// desertedText says that the nodes of a wave are gone.
func (r *run) desertedText(k int) string {
	w := &r.out.Status.Waves[k]
	where := fmt.Sprintf("%d of them do not exist any more", w.Gone-r.away[k])
	if r.away[k] > 0 {
		where += fmt.Sprintf(", and %d must not run the pod now, because of a taint or a label", r.away[k])
	}
	return fmt.Sprintf("The update had begun on %s of the wave %s that it has no more: %s. No other node of the wave shows that the revision works: "+
		"wait until they are back, go on without them with a RolloutApproval with the decision Promote, or change the template.", nodeCount(w.Gone), w.Name, where)
}

// NodesGone is the reason in a status after all nodes of a wave are gone that have had a pod of the revision.
const NodesGone = "NodesGone"

// wave counts the nodes of a wave. It keeps the known progress.
func (r *run) wave(k int) v1alpha1.WaveStatus {
	w := v1alpha1.WaveStatus{Name: r.p.Waves[k].Name, Phase: v1alpha1.WavePending}
	if was := r.before(w.Name); was != nil {
		w = *was.DeepCopy()
	}
	n := &r.waves[k]
	w.Nodes, w.Updated, w.Available, w.Gone = n.nodes, n.updated, n.available, r.gone[k]
	return w
}

// count counts the members of all waves. A wave goes on without the nodes that have failed, while no more of them have than may: they are left out until their pod is available.
func (r *run) count() {
	r.waves = make([]waveCount, len(r.p.Waves))
	for k := range r.waves {
		r.waves[k].failed = int32(len(r.failedGone(k)))
		r.waves[k].down = r.waves[k].failed
	}
	for i := range r.s.Nodes {
		if r.places[i] == nowhere || !member(r.s, &r.s.Nodes[i]) {
			continue
		}
		n := &r.waves[r.places[i]]
		failed := r.hasFailedOn(i)
		if failed {
			n.failed++
		}
		if r.isLeftOut(i) {
			n.absent++
			if failed { // it went down with the revision
				n.down++
			}
			continue
		}
		n.nodes++
		if r.standing[i].Updated {
			n.updated++
		}
		if r.standing[i].Available {
			n.available++
		}
	}
	if r.failed != nil {
		r.leaveOutFailed()
	}
}

// advance updates the phase of a wave, and reports whether it has passed. A wave whose nodes are all left out proves nothing, so it waits for one of them,
// or for a user who goes on without these nodes.
func (r *run) advance(k int, st *v1alpha1.WaveStatus, absent int32) bool {
	w, was := &r.p.Waves[k], st.Phase
	if was == v1alpha1.WavePassed {
		return true
	}
	if r.grows(k, st) {
		if st.RollingSince == nil {
			st.RollingSince = second(r.s.Now)
		}
		switch {
		case !r.soaked(k, st):
			st.Phase, st.WaitingSince = v1alpha1.WaveSoaking, nil
		case was == v1alpha1.WaveWaitingForApproval && w.Approval && r.approved(w) == nil:
			r.remind(w, st)
		}
		return false
	}
	if st.Available < st.Nodes || st.Nodes == 0 && absent > 0 && r.goesOn(k).step < st.Gone+absent {
		if node := r.firstLacking(k); node != "" && st.CompletedAt != nil && w.Soak > 0 {
			r.restartSoak(st, node)
		}
		if was != v1alpha1.WaveRolling || st.RollingSince == nil {
			st.RollingSince = second(r.s.Now)
		}
		st.Phase, st.CompletedAt, st.Soaked, st.WaitingSince = v1alpha1.WaveRolling, nil, nil, nil
		if st.Updated > 0 { // before that, there is nothing to measure
			r.analyse(k, st)
		}
		if st.Nodes == 0 {
			r.halt.step = st.Gone + absent
			r.blockLeftOut(st.Name, absent)
		}
		return false
	}
	st.RollingSince = nil
	if st.Nodes > 0 && !r.soaked(k, st) {
		st.Phase, st.WaitingSince = v1alpha1.WaveSoaking, nil
		return false
	}
	if approval := r.approved(w); w.Approval && approval == nil {
		st.Phase = v1alpha1.WaveWaitingForApproval
		r.remind(w, st)
		return false
	} else if approval != nil {
		st.Approval, st.ApprovedBy = approval.Name, approval.Spec.By
	}
	if st.CompletedAt == nil { // it has no nodes
		st.CompletedAt = second(r.s.Now)
	}
	st.Phase, st.Soaked, st.WaitingSince = v1alpha1.WavePassed, nil, nil
	return true
}

// remind sends another event about an approval that is missing.
func (r *run) remind(w *Wave, st *v1alpha1.WaveStatus) {
	if st.WaitingSince == nil {
		st.WaitingSince = second(r.s.Now)
	}
	r.next(v1alpha1.ActionApprove, 0)
	if w.RemindAfter <= 0 {
		return
	}
	every := max(w.RemindAfter, time.Second) // an older definition allowed less
	waited := r.s.Now.Sub(rollout.Time(st.WaitingSince.UnixNano()))
	if n := int64(waited / every); n > 0 && n > int64((waited-r.in.Elapsed)/every) && r.in.Elapsed > 0 {
		r.event(true, ReasonApprovalMissing, "The wave %s of revision %s has been waiting for an approval for %s.", w.Name, r.target().Name, waited.Truncate(every).String())
	}
	r.wakeAt(r.s.Now.Add(every - max(waited, 0)%every))
}

// release holds back the nodes of the waves that have not begun. The nodes of the next wave get the reason why it waits. A wave of which all nodes have the revision already, for
// example because a policy was created in the middle of a rollout, is not the next one: then no node would show the reason.
func (r *run) release(active int) {
	r.restricts = true
	st := &r.out.Status.Waves[active]
	next := rollout.WaitWave
	switch st.Phase {
	case v1alpha1.WaveSoaking:
		if next = rollout.WaitSoak; len(r.unmet) > 0 {
			next = rollout.WaitAnalysis
		}
	case v1alpha1.WaveWaitingForApproval:
		next = rollout.WaitApproval
	}
	following := nowhere
	for i := range r.s.Nodes {
		if k := r.places[i]; k > place(active) && !r.standing[i].Updated && (following == nowhere || k < following) {
			following = k
		}
	}
	for i := range r.s.Nodes {
		switch k := r.places[i]; {
		case k == nowhere || k <= place(active):
		case k == following:
			r.holds[i] = next
		default:
			r.holds[i] = rollout.WaitWave
		}
	}
	if st.Phase == v1alpha1.WaveRolling {
		r.steps(active)
	}
	r.holdLate(active)
}

// limit applies the limits that stop all waves, and returns the phase of the rollout.
func (r *run) limit(active int) {
	st, w := r.out.Status, &r.out.Status.Waves[active]
	st.Wave = w.Name
	switch w.Phase {
	case v1alpha1.WaveSoaking:
		st.Phase = v1alpha1.PhaseSoaking
		if len(r.unmet) > 0 {
			r.block("Analysis", fmt.Sprintf("The wave %s is complete, and does not pass before its analyses do. %s", w.Name, strings.Join(r.unmet, " ")))
			break
		}
		r.block("Soaking", r.soakText(active, w))
	case v1alpha1.WaveWaitingForApproval:
		st.Phase = v1alpha1.PhaseWaitingForApproval
		if r.approved(&r.p.Waves[active]) == nil {
			r.block("Approval", fmt.Sprintf("The wave %s is complete and needs a RolloutApproval for revision %s.", w.Name, r.target().Name))
		}
		if r.out.Memory.growing {
			r.block("NodesJoined", r.growingText(active, w))
		}
	default:
		st.Phase = v1alpha1.PhaseRolling
	}
	shut := r.shut()
	if alerts := r.blockOnAlerts(); shut || alerts || r.s.Set.Paused {
		r.deferWave(active)
	}
	r.blockedBySet("a wave may not become complete")
	if st.Phase == v1alpha1.PhaseRolling {
		r.blockedByNodes(active)
		r.blockedByOrder(active)
		r.blockedByRefusals(place(active))
		r.blockedByPods(active)
		r.blockedByBudget(place(active))
	}
}

// deferWave lets a wave in which no update has begun stay pending while nothing may start.
func (r *run) deferWave(active int) {
	w := &r.out.Status.Waves[active]
	if w.Phase != v1alpha1.WaveRolling || r.phaseBefore(w.Name) != v1alpha1.WavePending {
		return
	}
	for i := range r.s.Nodes {
		if r.places[i] == place(active) && (r.standing[i].Updated || r.standing[i].UnderWay) {
			return
		}
	}
	w.Phase, w.RollingSince = v1alpha1.WavePending, nil
}

// waits reports whether a node that is in no wave, because it only keeps the pod that it has, still waits for its update. It starts when the target is committed.
func (r *run) waits() bool {
	for i := range r.s.Nodes {
		if r.standing[i].AwaitsUpdate && len(r.s.Nodes[i].Pods) > 0 {
			return true
		}
	}
	return false
}

// shut applies a suspension, a freeze and the windows, and returns whether one of them stops all starts.
func (r *run) shut() bool {
	st := r.out.Status
	if r.p.Suspend { // windows and freezes change nothing
		st.Phase = v1alpha1.PhaseSuspended
		r.suspend()
		return true
	}
	kind, until := r.p.closed(r.s.Now)
	r.wakeAt(rollout.Earlier(until, r.p.closes(r.s.Now)))
	if kind == rollout.NotEvaluated {
		return false
	}
	r.holdReleased(kind)
	if st.Phase == v1alpha1.PhaseRolling {
		st.Phase = v1alpha1.PhaseWaitingForWindow
	}
	if kind == rollout.WaitFreeze {
		text := "A freeze is active, so no update starts."
		if until == rollout.EndOfTime {
			text = "A freeze is active that has no end in sight, so no update starts: set an end in spec.freezes, or remove the freeze."
		}
		r.block("Freeze", text)
		r.next(v1alpha1.ActionEndFreeze, until)
	} else {
		r.block(ClosedWindow, "No window is open, so no update starts.")
		r.next(v1alpha1.ActionOpenWindow, until)
	}
	return true
}

// blockedBySet names the limits of the set that hold nodes back, and the consequence.
func (r *run) blockedBySet(so string) {
	set := &r.s.Set
	if set.Paused {
		r.block(Paused, "The daemon set is paused, so no update starts: resume it with kubectl everynode resume "+r.argument()+".")
	}
	if set.Partition.Value > 0 {
		r.block("Partition", "The partition of the daemon set keeps nodes from the update, so "+so+": remove it with kubectl everynode partition "+r.argument()+" 0.")
	}
	if set.Selective {
		r.block("Selector", "The selector of the daemon set keeps nodes from the update, so "+so+": remove spec.updateStrategy.rollingUpdate.selector.")
	}
}

// Paused is the reason in a status while the set is paused.
const Paused = "Paused"

// argument is the set as users name it in commands, with its namespace.
func (r *run) argument() string { return r.in.Set.argument() + " -n " + r.in.Set.Namespace }
