// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// Reasons of events about a daemon set that a policy governs.
const (
	// ReasonRolloutStarted is sent when the template describes a revision that is not the committed one.
	ReasonRolloutStarted = "RolloutStarted"
	// ReasonWaveStarted is sent when the nodes of a wave may be updated.
	ReasonWaveStarted = "RolloutWaveStarted"
	// ReasonSoakStarted is sent when all nodes of a wave are updated and available.
	ReasonSoakStarted = "RolloutSoakStarted"
	// ReasonSoakRestarted is a warning: a node of a wave that soaked, or waited for an approval, is not available any more, or was not for a moment.
	ReasonSoakRestarted = "RolloutSoakRestarted"
	// ReasonApprovalNeeded is a warning: a wave has soaked, and the next one waits for a RolloutApproval.
	ReasonApprovalNeeded = "RolloutApprovalNeeded"
	// ReasonApprovalMissing reminds of that, as often as remindAfter of the wave says.
	ReasonApprovalMissing = "RolloutApprovalMissing"
	// ReasonWavePassed is sent when the next wave may begin.
	ReasonWavePassed = "RolloutWavePassed"
	// ReasonRolloutCommitted is sent when all waves have passed and all nodes have the revision.
	ReasonRolloutCommitted = "RolloutCommitted"
	// ReasonRolloutFailed is a warning: more nodes of a wave have failed than may, or the wave has taken too long. No further node gets the revision.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonRolloutUndoEnded is sent when all nodes have returned to the committed revision after a failure. The message names those that are not ready, and return later.
	ReasonRolloutUndoEnded = "RolloutUndoEnded"
	// ReasonRolloutUndoFailed is a warning: an undo has stopped, because the committed revision does not work either on more nodes than may fail.
	ReasonRolloutUndoFailed = "RolloutUndoFailed"
	// ReasonTemplateReverted is a warning: next to another controller, an undo has changed the template back to that of the committed revision.
	ReasonTemplateReverted = "RolloutTemplateReverted"
	// ReasonRolloutRetried is sent when a user has a revision that had failed rolled out again.
	ReasonRolloutRetried = "RolloutRetried"
	// ReasonRolloutUndone is a warning: the template describes the committed revision again, or the revision has failed and the policy undoes it. Nodes return
	// to the committed revision without waves.
	ReasonRolloutUndone = "RolloutUndone"
	// ReasonRolloutRejected is a warning: a RolloutApproval has rejected the revision.
	ReasonRolloutRejected = "RolloutRejected"
	// ReasonAnalysisFailed is a warning: an analysis of a wave fails. The wave fails when that happens more often than failureLimit allows.
	ReasonAnalysisFailed = "RolloutAnalysisFailed"
	// ReasonAnalysisUnknown is a warning: an analysis of a wave has no answer, or it is not known whether alerts are firing. The rollout waits for an answer.
	ReasonAnalysisUnknown = "RolloutAnalysisUnknown"
	// ReasonAnalysisPassed is sent when an analysis passes after it had failed, or had no answer.
	ReasonAnalysisPassed = "RolloutAnalysisPassed"
	// ReasonAlertsFiring is a warning: alerts that the policy names are firing, so no update starts.
	ReasonAlertsFiring = "RolloutAlertsFiring"
	// ReasonAlertsEnded is sent when such alerts hold the rollout no longer.
	ReasonAlertsEnded = "RolloutAlertsEnded"
	// ReasonRolloutStalled is a warning: the policy cannot be followed.
	ReasonRolloutStalled = "RolloutStalled"
)

// Reasons are all of them.
func Reasons() []string {
	return []string{
		ReasonRolloutStarted, ReasonWaveStarted, ReasonSoakStarted, ReasonSoakRestarted, ReasonApprovalNeeded, ReasonApprovalMissing, ReasonWavePassed, ReasonRolloutCommitted,
		ReasonRolloutFailed, ReasonRolloutUndoEnded, ReasonRolloutUndoFailed, ReasonTemplateReverted, ReasonRolloutRetried, ReasonRolloutUndone, ReasonRolloutRejected, ReasonAnalysisFailed,
		ReasonAnalysisUnknown, ReasonAnalysisPassed, ReasonAlertsFiring, ReasonAlertsEnded, ReasonRolloutStalled,
	}
}

// The API versions of sets in a status.
const (
	versionNative   = "apps/v1"
	versionAdvanced = "apps.kruise.io/v1beta1"
)

// APIVersion is how a status names the API of a set.
func (s Set) APIVersion() string {
	if s.Advanced {
		return versionAdvanced
	}
	return versionNative
}

// Title names a set in a sentence.
func (s Set) Title() string {
	if s.Advanced {
		return "Advanced DaemonSet " + s.Name
	}
	return "DaemonSet " + s.Name
}

// argument is the set as users name it in commands.
func (s Set) argument() string {
	if s.Advanced {
		return "ads/" + s.Name
	}
	return "daemonset/" + s.Name
}

// report begins the status of a set.
func (r *run) report() {
	st := &v1alpha1.SetStatus{
		APIVersion: r.in.Set.APIVersion(), Name: r.in.Set.Name, Enforcement: enforcement(&r.s.Set),
		UID: r.in.UID, ObservedGeneration: r.in.Generation, TargetRevision: r.target().Name, TargetNumber: r.number(),
		CommittedRevision: r.revision(r.committed).Name, CommittedDigest: r.revision(r.committed).Digest,
	}
	if r.lost && r.in.Last != nil {
		st.CommittedRevision, st.CommittedDigest = r.in.Last.CommittedRevision, r.in.Last.CommittedDigest // so that the next decision knows
	}
	if !r.atRest() || r.begun > 1 {
		st.Attempt = r.begun
	}
	if !r.atRest() {
		st.StartedAt = second(r.s.Now)
		if r.last != nil && r.last.StartedAt != nil {
			st.StartedAt = r.last.StartedAt
		}
	}
	if r.last != nil && r.last.Failure != nil && !r.atRest() { // also while nothing is decided: the mark alone does not count later
		st.Failure, st.RejectedRevision = r.last.Failure, r.last.RejectedRevision
	}
	r.out.Status = st
}

func (r *run) block(reason, message string) {
	r.out.Status.Blocking = append(r.out.Status.Blocking, v1alpha1.Blocking{Reason: reason, Message: message})
}

// next records the next action, unless an earlier one is known; 0 is an unknown time.
func (r *run) next(action v1alpha1.Action, at rollout.Time) {
	now := r.out.Status.Next
	if at == rollout.EndOfTime {
		at = 0
	}
	if now != nil && (at == 0 || now.Action == v1alpha1.ActionApprove || now.At != nil && now.At.UnixNano() <= int64(at)) {
		return
	}
	r.out.Status.Next = &v1alpha1.NextAction{Action: action}
	if at != 0 {
		r.out.Status.Next.At = second(at)
	}
}

func (r *run) event(warning bool, reason, format string, args ...any) {
	r.out.Events = append(r.out.Events, Event{warning, reason, fmt.Sprintf(format, args...)})
}

// changes makes the events of what has changed since the last decision.
func (r *run) changes() {
	st, was := r.out.Status, r.in.Last
	if was == nil {
		was = &v1alpha1.SetStatus{}
	}
	target := st.TargetRevision
	if r.last == nil && !r.atRest() {
		r.event(false, ReasonRolloutStarted, "The rollout of revision %s begins under the policy %s.", target, r.p.Name)
	}
	for i := range st.Waves {
		r.waveChanged(&st.Waves[i])
	}
	r.answersChanged()
	r.keepStopped()
	if st.Phase != was.Phase || blocks(st, blockedUndoFailed) != blocks(was, blockedUndoFailed) {
		r.phaseChanged(was)
	}
	r.repeatNotice()
}

func (r *run) phaseChanged(last *v1alpha1.SetStatus) {
	st, target := r.out.Status, r.out.Status.TargetRevision
	was := last.Phase
	if blocks(last, blockedUndoFailed) { // it goes on, or has ended
		was = v1alpha1.PhaseUndoing
	}
	if text := blocking(st, blockedUndoFailed); text != "" {
		r.event(true, ReasonRolloutUndoFailed, "%s", text)
		r.stopNotice(text)
		return
	}
	switch st.Phase {
	case v1alpha1.PhaseComplete:
		if was == "" {
			break
		}
		if _, is := r.reverted(); is && was == v1alpha1.PhaseUndoing {
			r.undoEnded()
			break
		}
		text := fmt.Sprintf("All nodes have revision %s%s.", target, r.without())
		r.event(false, ReasonRolloutCommitted, "%s", text)
		if was == v1alpha1.PhaseUndoing {
			r.endNotice(NoticeUndone, text)
		} else {
			r.endNotice(NoticeComplete, text)
		}
	case v1alpha1.PhaseUndoing:
		r.undoBegins(target)
	case v1alpha1.PhaseFailed:
		if was == v1alpha1.PhaseUndoing && r.returned {
			r.undoEnded()
			break
		}
		text := blocking(st, blockedRefused) // it contains the message of the failure
		if text == "" {
			text = r.failure.Message
		}
		r.event(true, ReasonRolloutFailed, "Revision %s %s: no further node gets it. %s", target, r.failedText(), text)
		if was == v1alpha1.PhaseUndoing {
			r.stopNotice(st.Blocking[0].Message)
			break
		}
		r.failedNotice()
	case v1alpha1.PhaseRejected:
		by := ""
		if a := r.decided(v1alpha1.Reject, ""); a != nil {
			if by = who("", a.Spec.By, a.Name); a.Spec.Reason != "" {
				by += fmt.Sprintf(" (%s)", Shortened(a.Spec.Reason, longestMessage))
			}
		}
		r.event(true, ReasonRolloutRejected, "Revision %s was rejected%s: no further node gets it.", target, by)
	case v1alpha1.PhaseStalled:
		r.event(true, ReasonRolloutStalled, "%s", st.Blocking[len(st.Blocking)-1].Message)
	}
}

// without names the nodes that have no available pod of the committed revision; empty if all have one.
func (r *run) without() string {
	var names []string
	for i := range r.s.Nodes {
		if member(r.s, &r.s.Nodes[i]) && !r.standing[i].Available {
			names = append(names, r.s.Nodes[i].Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(", except those without an available pod of it (%d): %s", len(names), some(names, mostNamed))
}

// undoBegins reports that nodes return to the committed revision.
func (r *run) undoBegins(target string) {
	if r.failure == nil {
		r.event(true, ReasonRolloutUndone, "The template describes the committed revision %s again: all nodes return to it, without waves.", target)
		return
	}
	committed := r.out.Status.CommittedRevision
	what := "nodes return to the committed revision " + committed
	if r.s.Set.ExternalController {
		what = fmt.Sprintf("its undo must change the template back to the committed revision %s, before nodes return to it", committed)
	}
	r.event(true, ReasonRolloutUndone, "Revision %s %s: %s. %s", target, r.failedText(), what, r.whyUndone())
	r.failedNotice()
}

// undoRequested begins the message of the failure of a revision that a user has undone.
const undoRequested = "The undo was requested by "

// requested says which user asked for an undo, and why.
func requested(asked *v1alpha1.RolloutApproval) string {
	by := asked.Spec.By
	if by == "" {
		by = fmt.Sprintf("a user whom rolloutapproval/%s does not name", asked.Name)
	}
	return strings.TrimSpace(fmt.Sprintf(undoRequested+"%s. %s", by, asked.Spec.Reason))
}

// whyUndone is the message of the failure, and who asked for its undo later.
func (r *run) whyUndone() string {
	asked := r.decided(v1alpha1.UndoRollout, "")
	if f := r.out.Status.Failure; f == nil || f.UndoAt == nil || asked == nil {
		return r.failure.Message
	}
	return r.failure.Message + " " + requested(asked)
}

// failedText says whether the revision has failed, or a user has undone it.
func (r *run) failedText() string {
	if strings.HasPrefix(r.failure.Message, undoRequested) {
		return "is undone"
	}
	return "has failed"
}

func (r *run) undoEnded() {
	r.out.Status.UndoStoppedAt = nil
	text := r.returnedText("the committed revision " + r.out.Status.CommittedRevision)
	r.event(false, ReasonRolloutUndoEnded, "%s", text)
	r.endNotice(NoticeUndone, text)
}

// phaseBefore is the phase that a wave had in the last status of the rollout.
func (r *run) phaseBefore(wave string) v1alpha1.WavePhase {
	if was := r.before(wave); was != nil {
		return was.Phase
	}
	return v1alpha1.WavePending
}

func (r *run) waveChanged(w *v1alpha1.WaveStatus) {
	before := r.phaseBefore(w.Name)
	if w.Phase == before || w.Nodes == 0 && w.Phase != v1alpha1.WaveWaitingForApproval {
		return
	}
	text := r.waveText(w)
	switch w.Phase {
	case v1alpha1.WaveRolling:
		if before != v1alpha1.WavePending {
			by := ""
			if was := r.before(w.Name); was != nil && was.SoakRestarts < w.SoakRestarts {
				by = fmt.Sprintf(" (node %s)", w.SoakRestartedBy)
			}
			r.event(true, ReasonSoakRestarted, "The wave %s of revision %s is not available on all nodes any more%s: its soak starts again.", w.Name, r.out.Status.TargetRevision, by)
			return
		}
		r.event(false, ReasonWaveStarted, "%s", text)
	case v1alpha1.WaveSoaking:
		r.event(false, ReasonSoakStarted, "%s", text)
	case v1alpha1.WaveWaitingForApproval:
		r.event(true, ReasonApprovalNeeded, "%s", text)
	case v1alpha1.WavePassed:
		r.event(false, ReasonWavePassed, "%s", text)
	}
	r.waveNotice(w, false)
}

// second returns a time with the resolution of API objects. The full time is kept, and truncated when it is written.
func second(t rollout.Time) *metav1.Time {
	at := metav1.NewTime(time.Unix(0, int64(t)).UTC())
	return &at
}

// Moment is a time of a start, as a status has it.
func Moment(t rollout.Time) *metav1.MicroTime {
	at := metav1.NewMicroTime(time.Unix(0, int64(t)).UTC())
	return &at
}

// LeftToOpenYurt is why a policy holds nothing of a set that OpenYurt's own manager updates.
func LeftToOpenYurt() v1alpha1.Blocking {
	return v1alpha1.Blocking{Reason: "OpenYurt", Message: "OpenYurt's own manager starts the updates of this daemon set, as its annotations ask, so the policy holds nothing. " +
		"To let the policy control updates, stop that manager and serve the dialect openyurt, or remove the annotations."}
}

// NotServed is why Everynode does not update a set: because is a part of a sentence, and remedy a sentence, which may be empty.
func NotServed(because, remedy string) v1alpha1.Blocking {
	return v1alpha1.Blocking{Reason: "NotServed", Message: strings.TrimSpace("Everynode does not update this daemon set: " + because + ". " + remedy)}
}

// Idle returns the status of a set without a decision, and why there is none: its specification is invalid, or requests no update.
// It keeps the data of the last status (nil if there is none) that later decisions need: without this data,
// marks can only hold nodes, and other nodes could take the places of those that are gone.
func Idle(set Set, last *v1alpha1.SetStatus, why v1alpha1.Blocking) *v1alpha1.SetStatus {
	st := &v1alpha1.SetStatus{
		APIVersion: set.APIVersion(), Name: set.Name, Enforcement: v1alpha1.EnforcementNone, Phase: v1alpha1.PhaseStalled, Blocking: []v1alpha1.Blocking{why},
	}
	keep(st, last)
	return st
}

// Unwritten returns the status of a set while the API server refuses the ControllerRevision of its template, and nil if its policy controls nothing. because is the answer. It keeps
// the data of the last status, which is about another template: the rollout has not begun.
func Unwritten(set Set, of *rollout.Set, last *v1alpha1.SetStatus, because string) *v1alpha1.SetStatus {
	if enforcement(of) == v1alpha1.EnforcementNone {
		return nil
	}
	st := Idle(set, last, v1alpha1.Blocking{Reason: revisionRefused, Message: fmt.Sprintf("The ControllerRevision of the template could not be written, so its rollout does not begin: %s. "+
		"Let the API server accept it, or change the template.", because)})
	st.Enforcement = enforcement(of)
	return st
}

// keepProgress keeps what the waves and analyses of the rollout have reached, if this decision has not looked at them.
func (r *run) keepProgress() {
	st := r.out.Status
	if r.last == nil || r.out.Retry {
		return
	}
	if st.Waves == nil {
		if st.Waves = r.last.Waves; r.atRest() { // none of the others waits for anything any more: the mark of an earlier set, or of a copy of the storage, has ended the rollout
			st.Waves = slices.DeleteFunc(slices.Clone(r.last.Waves), func(w v1alpha1.WaveStatus) bool { return w.Phase != v1alpha1.WavePassed })
			for k := range st.Waves {
				st.Waves[k].Begun = nil
			}
		}
	}
	if st.Analyses == nil {
		st.Analyses = r.last.Analyses
	}
	if r.undoing || r.returned {
		r.countUndone()
	}
}

// keep takes from the last status (nil if there is none) what later decisions need, also those of another manager. The slices are shared.
func keep(st, last *v1alpha1.SetStatus) {
	if last == nil {
		return
	}
	st.CommittedRevision, st.CommittedDigest, st.TargetRevision, st.TargetNumber = last.CommittedRevision, last.CommittedDigest, last.TargetRevision, last.TargetNumber
	st.UID, st.ObservedGeneration, st.Attempt = last.UID, last.ObservedGeneration, last.Attempt
	st.Failure, st.RejectedRevision, st.NotReadyBefore = last.Failure, last.RejectedRevision, last.NotReadyBefore
	st.JoinedWithPod = last.JoinedWithPod
	st.StartedAt, st.LastStart, st.Waves, st.Analyses = last.StartedAt, last.LastStart, last.Waves, last.Analyses
}
