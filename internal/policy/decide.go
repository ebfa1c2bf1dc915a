// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// Input is everything that Decide may look at.
type Input struct {
	// Snapshot is the Snapshot of the decision that follows; its Gate is ignored. Labels are the labels of its nodes, by index.
	Snapshot *rollout.Snapshot
	Labels   []map[string]string
	// Revisions belong to those of the Snapshot, by index; the last one may be missing, because it has not been written.
	Revisions []Revision
	// ClaimsMore reports whether a quota may count more of a pod of one revision than of one of another; nil if that is not known.
	ClaimsMore func(revision, than int) bool
	// ScheduledAlike reports whether a node has room for a pod of one revision wherever it has for one of another; nil if that is not known.
	ScheduledAlike func(revision, as int) bool
	// Fits returns for each node of the Snapshot where a pod of a revision may run by its own template; nil if that is the same as by the template of the set, or not known.
	// Fits itself is nil if another controller creates the pods.
	Fits func(revision int) []rollout.Fit
	// UID and Generation are those of the daemon set; empty and 0 if they are not known.
	UID        types.UID
	Generation int64
	// Set names the daemon set; Policies are those that apply to it. Unread is whether the policies have not been read yet, or cannot be read.
	Set      Set
	Policies []*Policy
	Unread   bool
	// OpenYurt reports whether the updates that the annotations of the set ask for are left to OpenYurt's own manager. The set is OnDelete then.
	OpenYurt bool
	// Approvals are the approvals of the namespace, the oldest first. Unstored are the names of those whose
	// state this process has set, but has not yet read back from the approval or from the status of its policy.
	Approvals []v1alpha1.RolloutApproval
	Unstored  map[string]bool
	// Last is the outcome of the last decision for this set and policy, or its entry in the status of the policy (Restored); nil if nothing is known.
	Last     *v1alpha1.SetStatus
	Restored bool
	// Elapsed is how long ago the last decision was, by a clock that users cannot set; 0 if this process has made none.
	Elapsed time.Duration
	// Stored is the entry of the set in the last read status of the policy; nil if there is none, or if it is irrelevant.
	Stored *v1alpha1.SetStatus
	// Watch contains the observations of nodes from the last decision of this process; nil if there are none.
	Watch *Watch
	// Memory is what the last decision of this process has passed on; nil if it has made none.
	Memory *Memory
	// Answers are the answers since the last decision, in their order, and Measuring defines who measures.
	Answers   []Answer
	Measuring Measuring
	// Neighbours are the other sets of the concurrency group; nil without a group.
	Neighbours *Neighbours
	// Template describes the template of a set whose pods another controller creates; nil if the manager never changes it.
	Template *Template
}

// Revision contains data of a ControllerRevision in addition to the Snapshot.
type Revision struct {
	// Name is the name of the object; empty for one that has not been written.
	Name string
	// Committed is the number in its mark; 0 for none.
	Committed int64
	// Failed is its mark everynode.Failed; nil for none.
	Failed *everynode.Failure
	// Same is the index of the revision that has the same template and represents it.
	Same int
	// Digest is the digest of its template (revision.Digest).
	Digest string
	// Foreign reports whether pods with its hash may have been created from another revision.
	Foreign bool
}

// Result contains what a policy allows, and the writes that must follow.
type Result struct {
	// Gate is nil where no policy restricts the update.
	Gate *rollout.Gate
	// Status is what the policy reports of the set; nil where there is no policy.
	Status *v1alpha1.SetStatus
	// Commit is the index of the revision that is to be marked as committed with CommitNumber;
	// rollout.NoRevision for none. No further node may be released before that is written.
	Commit       int
	CommitNumber int64
	// Release reports whether all marks must be removed: no policy applies any more, and no rollout is active.
	Release bool
	// Fail is the mark everynode.Failed that the target is to get; nil for none. Retry is whether its mark is to be removed.
	Fail  *everynode.Failure
	Retry bool
	// Wanted is the index of the revision that nodes are to return to, while the template describes one that has failed; rollout.NoRevision for the one that
	// the template describes.
	Wanted int
	// Fits are those of the nodes of the Snapshot, if the policy changes them; nil otherwise.
	Fits []rollout.Fit
	// Revert is the index of the revision to which the template is to be changed, because the one that it describes has failed and another controller creates
	// the pods; rollout.NoRevision for none.
	Revert int
	// Watch is the Watch of the next decision.
	Watch *Watch
	// Memory is for the next decision; nil if nothing is decided and there was no decision before.
	Memory *Memory
	// MaxUnavailable further limits the budget of the set; nil for no limit.
	MaxUnavailable *rollout.Quantity
	// Judged are the approvals with a status that is to be written.
	Judged []v1alpha1.RolloutApproval
	Events []Event
	// Notices are what programs outside of the cluster are notified of, in their order.
	Notices []Notice
	// Questions are what is to be measured from now on, until the next decision.
	Questions []Question
	// Wake is when to decide again although nothing happens; 0 for never.
	Wake rollout.Time
	// Starts reports whether the times of starts matter, so that they must be recorded with Started.
	Starts bool
	// UnderWay are the nodes in the middle of their update, for the other sets of the group; nil if that is not known, or there is no group.
	UnderWay Nodes
	// Down are the nodes among them that have no available pod and wait for their next update.
	Down Nodes
	// active reports whether an update is active: otherwise a pod that is not available is not in the middle of one.
	active bool
}

// Event is something that is worth an event.
type Event struct {
	Warning         bool
	Reason, Message string
}

// run is the state of one Decide.
type run struct {
	in  *Input
	s   *rollout.Snapshot
	p   *Policy
	out Result
	// template is the index of the revision that the template describes. It is also the index in the Snapshot, unless nodes return to the committed revision.
	template int
	// failure is the reason why the target has failed; nil if it has not.
	failure *everynode.Failure
	// failed contains for each node the failure of the revision on it, or nil. It is nil if the policy does not judge the revision.
	failed []*v1alpha1.FailedNode
	// excused are the nodes on which it has failed, but this does not count, because no pod of the set has ever been available there.
	excused []int
	// withPod are the nodes that the last status names in joinedWithPod; nil before they are needed.
	withPod map[string]bool
	// committed is the index of the committed revision, marked whether the newest mark is its own, recorded whether the last status names it, and anyMark whether there is a mark.
	committed                 int
	marked, recorded, anyMark bool
	// lost reports whether its ControllerRevision is gone, and joining the revision of nodes that join until then.
	lost    bool
	joining int
	// last is what the last decision has reported of this rollout; nil if it was about another one. rollout is its number then; 0 if it begins now.
	last    *v1alpha1.SetStatus
	rollout int64
	places  []place
	// began is for each node the wave in which its update has begun, if that is known, and gone for each wave how many such nodes are gone.
	began []place
	gone  []int32
	// away is how many of those exist but are no members of their wave any more, and apart is for each of them its wave.
	away     []int32
	apart    map[int]place
	waves    []waveCount
	holds    []rollout.VerdictKind
	left     []leftOut
	standing []rollout.Progress
	// serving and charging are computed from the Snapshot, if needed.
	serving, charging func(i int) bool
	// needed is the progress of the nodes that keepNeeded has changed.
	needed func(i int) rollout.Progress
	// restricts reports whether the decision gets the gate.
	restricts bool
	// returning reports whether nodes still lack the committed revision, which the template describes.
	returning bool
	// undoing reports whether nodes return from a revision that has failed, or that a user has undone, and from is its index. returned reports whether that has ended.
	undoing, returned bool
	from              int
	// attempt is the attempt of the rollout that is active, begun the one that the last decision knew of, and asked the last one that a user has asked for.
	attempt, begun, asked int64
	// fits is where pods of the committed revision may run, and targetFits where those of the target may: nil if these are the same nodes.
	fits, targetFits []rollout.Fit
	// halt is where the active wave does not go on, because nothing shows that the revision works: what a user goes on without.
	halt halt
	// unmet say why the analyses of the wave that is analysed do not pass, and overdue why one that has had no answer for too long stops the rollout.
	unmet   []string
	overdue string
}

// waveCount are the numbers of a wave: failed is how many nodes have failed, down how many of them are left out because they are not ready, and mayFail how many may fail.
type waveCount struct{ nodes, updated, available, absent, failed, down, mayFail int32 }

// Decide decides what the policies of a set allow.
func Decide(in *Input) Result {
	r := &run{in: in, s: in.Snapshot, out: Result{Commit: rollout.NoRevision, Wanted: rollout.NoRevision, Revert: rollout.NoRevision, Memory: &Memory{}}, template: in.Snapshot.Set.Update}
	if u := r.s.Set.Update; u < 0 || u >= len(r.s.Revisions) {
		r.out.Memory, r.out.Watch = in.Memory.Unobserved(), in.Watch.pause()
		return r.out // nothing is decided, and the next decision continues from the last one
	}
	r.keepMemory()
	r.findCommitted()
	r.keepPods()
	switch {
	case in.Unread:
		r.withoutPolicy()
	case len(in.Policies) == 0 && !r.anyMark:
	case len(in.Policies) == 0:
		r.out.Release = r.atRest()
		r.withoutPolicy()
	default:
		r.withPolicy()
	}
	if in.Neighbours != nil && r.standing != nil && r.out.UnderWay == nil {
		r.out.UnderWay = r.underWay()
	}
	return r.out
}

// atRest reports whether the template describes the committed revision.
func (r *run) atRest() bool { return r.committed == r.template }

// withoutPolicy holds a rollout that no policy allows, or may not allow. Nodes that return to the committed revision are not held, but they may still hold the group.
func (r *run) withoutPolicy() {
	if !r.atRest() || r.in.Unread { // it is not known how a policy treats a mark before the policy has been read
		r.measure()
		r.holdAll(rollout.WaitPolicy)
		r.gate()
	} else if n := r.in.Neighbours; n != nil {
		r.measure()
		r.returning = len(n.Own) > 0
	}
}

func (r *run) withPolicy() {
	r.p = r.in.Policies[0]
	if r.target().Name == "" { // the revision could not be written yet, so nothing can be reported of it
		r.measure()
		r.holdAll(rollout.WaitPolicy)
		r.gate()
		return
	}
	r.findLast()
	r.findAttempt()
	r.report()
	r.measure()
	switch kind := enforcement(&r.s.Set); {
	case kind == v1alpha1.EnforcementNone:
		r.keepWatch()
		r.uncontrolled()
		return
	case len(r.in.Policies) > 1:
		r.keepWatch()
		r.stall(rollout.WaitConflict, SeveralPolicies, "More than one policy applies to the daemon set: "+names(r.in.Policies)+". Change their targets so that one remains.")
	case len(r.p.Problems) > 0 && !r.undoesAnyway():
		r.keepWatch()
		r.stall(rollout.WaitPolicy, Invalid, "The policy cannot be followed: "+r.p.Problems[0]+".")
	case r.atRest():
		r.settle()
	case r.attempt > r.begun:
		r.retry()
	case r.hasFailed():
		r.afterFailure()
	case r.rejected():
		r.holdRejected()
	default:
		r.roll()
	}
	r.keepProgress()
	if !r.marked && !r.lost && r.out.Commit < 0 {
		r.commit(r.committed)
		if !r.atRest() && !r.undoing {
			r.holdAll(rollout.WaitPolicy) // what is released later is released under a mark; nodes that return need none
		}
	}
	r.together()
	r.pace()
	r.stopTime()
	r.gate()
	r.judge()
	r.changes()
	r.reportUnconfirmed()
	r.reportUnknownWave()
}

// Invalid is the reason in a status while the specification of the policy cannot be followed.
const Invalid = "Invalid"

// uncontrolled reports why the policy holds nothing. The rollout goes on where it was when the policy controls the set again.
func (r *run) uncontrolled() {
	r.out.Status.Phase = v1alpha1.PhaseStalled
	r.keepProgress()
	if r.in.Last != nil {
		r.out.Status.LastStart = r.in.Last.LastStart
	}
	if r.in.OpenYurt {
		why := LeftToOpenYurt()
		r.block(why.Reason, why.Message)
		return
	}
	r.block("OnDelete", "The daemon set has the strategy OnDelete, so only users update it. If Everynode creates its pods, set the type RollingUpdate to let the policy control updates. "+
		"If another controller does, leave it: a manager with the dialect policy controls them.")
}

// commit asks for the mark of a revision, and names it in the status: the mark counts only together with that.
func (r *run) commit(revision int) {
	if revision >= len(r.in.Revisions) || r.in.Revisions[revision].Name == "" {
		return // it has not been written yet
	}
	for i := range r.in.Revisions {
		if !r.in.Revisions[i].Foreign {
			r.out.CommitNumber = max(r.out.CommitNumber, r.in.Revisions[i].Committed)
		}
	}
	r.out.Commit = revision
	r.out.Status.CommittedRevision, r.out.Status.CommittedDigest = r.revision(revision).Name, r.revision(revision).Digest
	if r.out.CommitNumber < math.MaxInt64 { // a user may have written that
		r.out.CommitNumber++
	}
}

// target is the revision that the template describes.
func (r *run) target() Revision { return r.revision(r.template) }

func (r *run) revision(i int) Revision {
	if i >= 0 && i < len(r.in.Revisions) {
		return r.in.Revisions[i]
	}
	return Revision{}
}

// measure determines the progress of each node.
func (r *run) measure() {
	r.left, r.holds, r.standing = make([]leftOut, len(r.s.Nodes)), make([]rollout.VerdictKind, len(r.s.Nodes)), make([]rollout.Progress, len(r.s.Nodes))
	standing := r.s.Progress()
	for i := range r.s.Nodes {
		r.standing[i] = standing(i)
		if n := &r.s.Nodes[i]; !n.Ready && member(r.s, n) && r.p != nil {
			r.leaveOutDown(i)
		} else if n.Fit == rollout.MayStay && isBack(r.s, n) {
			r.wakeAt(n.Since.Add(taintWait)) // the waves go on without it then
		}
	}
}

// serves reports whether a node has an available pod, of whichever revision.
func (r *run) serves(i int) bool {
	if r.serving == nil {
		r.serving = r.s.Serving()
	}
	return r.serving(i)
}

// holdAll holds every node back that is not held for another reason yet.
func (r *run) holdAll(kind rollout.VerdictKind) {
	for i := range r.holds {
		r.holds[i] = kind
	}
	r.restricts = true
}

// isReleased reports whether nothing holds a node back, as far as that is known yet.
func (r *run) isReleased(i int) bool { return r.holds[i] == rollout.NotEvaluated }

// holdReleased holds those nodes back that nothing else holds.
func (r *run) holdReleased(kind rollout.VerdictKind) {
	for i := range r.holds {
		if r.holds[i] == rollout.NotEvaluated {
			r.holds[i] = kind
		}
	}
	r.restricts = true
}

func (r *run) stall(kind rollout.VerdictKind, reason, message string) {
	r.out.Status.Phase = v1alpha1.PhaseStalled
	r.holdAll(kind)
	r.block(reason, message)
}

// gate builds the gate from the results.
func (r *run) gate() {
	if !r.restricts {
		return
	}
	if r.out.Gate == nil {
		r.out.Gate = &rollout.Gate{InFlight: -1, Starts: -1}
	}
	r.out.Gate.Holds, r.out.Gate.Joining, r.out.Gate.Unfit = r.holds, r.joining, r.unfit()
	if r.p != nil && r.p.Latest && r.followed() && !r.isBad() {
		r.out.Gate.Joining = rollout.NoRevision
	}
}

// followed reports whether exactly one policy applies, and has no mistake: otherwise none of them releases anything.
func (r *run) followed() bool { return len(r.in.Policies) == 1 && len(r.p.Problems) == 0 }

// isBad reports whether the target has failed or was rejected. The status reports a failure also while nothing is decided.
func (r *run) isBad() bool {
	return r.failure != nil || !r.atRest() && (r.rejected() || r.out.Status != nil && r.out.Status.Failure != nil)
}

// pace limits how many updates start.
func (r *run) pace() {
	g := &rollout.Gate{InFlight: -1, Starts: -1}
	if most := r.p.MaxUpgrading; most != nil {
		members := 0
		for i := range r.s.Nodes {
			if desired(&r.s.Nodes[i]) {
				members++
			}
		}
		g.InFlight, g.Absent = max(most.Of(members), 1), r.uncounted()
		r.blockedByPace(g)
		g.InFlight = max(g.InFlight-r.downWithout(), 0)
	}
	g.NewestFirst = r.undoing && r.p.Undo.NewestFirst
	if gap := r.p.MinTimeBetween; gap > 0 {
		r.out.Starts = true
		g.Starts = 1
		if last := r.lastStart(); last != 0 {
			if rest := gap - r.startedFor(last); rest > 0 {
				g.Starts = 0
				r.wakeAt(r.s.Now.Add(rest))
				if r.releases() {
					r.next(v1alpha1.ActionStartUpdate, r.s.Now.Add(rest))
				}
			}
		}
	}
	g.Creates = (g.InFlight >= 0 || g.Starts >= 0) && !r.undoing && !r.atRest() // otherwise the last revision of a node may be the one that has failed
	if g.InFlight >= 0 || g.Starts >= 0 || g.NewestFirst {
		r.out.Gate, r.restricts = g, true
	}
}

// releases reports whether waves, windows and similar limits of the policy allow the update of a node to start.
func (r *run) releases() bool {
	for i := range r.holds {
		if r.holds[i] == rollout.NotEvaluated && r.standing[i].AwaitsUpdate && !r.s.Nodes[i].Gone {
			return true
		}
	}
	return false
}

// lastStart returns when an update was last started: as recorded, or not before that as the pods show it. A time in the
// future was recorded before the clock was set back: then the start counts as now.
func (r *run) lastStart() rollout.Time {
	last := rollout.Time(0)
	if r.in.Last != nil && r.in.Last.LastStart != nil {
		last = rollout.Time(r.in.Last.LastStart.UnixNano())
	}
	if r.in.Last == nil || r.in.Restored || r.in.Last.LastStart == nil { // nothing was recorded while the policy had no such time
		shown, unclear := r.shownStart()
		if last = max(last, shown); unclear && r.s.Now.Sub(last) >= r.p.MinTimeBetween { // before that, no manager has started any
			last = r.s.Now
		}
	}
	if last > r.s.Now {
		last = r.s.Now
	}
	if last != 0 {
		r.out.Status.LastStart = Moment(last)
	}
	return last
}

// Started reports whether a plan starts the update of a node.
func Started(p *rollout.Plan) bool {
	return slices.ContainsFunc(p.Actions, startsUpdate)
}

// startsUpdate reports whether an action starts the update of a node. Where a preDelete hook applies, the old pod is prepared first.
func startsUpdate(a rollout.Action) bool {
	return a.Begins || a.Reason.StartsUpdate() || a.Reason == rollout.Preparing && !a.Evict
}

func (r *run) wakeAt(t rollout.Time) {
	if t != rollout.EndOfTime {
		r.out.Wake = rollout.Earlier(r.out.Wake, t)
	}
}
