// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// NoticeType is what a Notice is about.
type NoticeType string

// The types of notices.
const (
	// NoticeWaveBegun: the nodes of a wave may be updated.
	NoticeWaveBegun NoticeType = "wave-begun"
	// NoticeSoaking: all nodes of a wave are updated and available, and the wave is being observed.
	NoticeSoaking NoticeType = "soaking"
	// NoticeAwaitingApproval: a wave has soaked, and waits for a RolloutApproval.
	NoticeAwaitingApproval NoticeType = "awaiting-approval"
	// NoticeFailed: the revision has failed, or a user asked for its undo. No further node gets it. Another one follows if its undo begins later, or stops before all nodes have returned.
	NoticeFailed NoticeType = "failed"
	// NoticeUndone: all nodes have returned to the committed revision, except those that the reason names because they are not ready.
	NoticeUndone NoticeType = "undone"
	// NoticeComplete: all waves have passed, and all nodes have the revision.
	NoticeComplete NoticeType = "complete"
)

// NoticeTypes returns all types of notices, in the order in which they occur in a rollout.
func NoticeTypes() []NoticeType {
	return []NoticeType{NoticeWaveBegun, NoticeSoaking, NoticeAwaitingApproval, NoticeFailed, NoticeUndone, NoticeComplete}
}

// Notice is an event of a rollout that programs outside of the cluster may be interested in. The first process that decides about a rollout which another process
// has begun repeats the newest notice about the active wave, or about the failure: that process may have ended before it could send it.
type Notice struct {
	Type   NoticeType
	Set    Set
	Policy string
	// UID and Dialect are those of the set. Decide does not know them: its caller fills them in.
	UID     types.UID
	Dialect string
	// Revision is the name of the target, Number its number, and Committed the name of the committed revision.
	Revision  string
	Number    int64
	Committed string
	// Attempt is when the rollout began, in seconds since 1970: a retry begins another one. It is 0 for a rollout that has ended.
	Attempt int64
	// Wave is empty for a notice that is about no wave.
	Wave string
	// Counts are the counts of the wave, or of the whole set; nil if they are not known.
	Counts *NoticeCounts
	// At is when it happened.
	At rollout.Time
	// Occurrence is when the wave became complete, in seconds since 1970, or when an undo stopped, because this may happen again. It is negative for an undo that began later than the revision failed, and 0
	// for events that happen only once.
	Occurrence int64
	// Reason explains why, and Next what follows, as human-readable sentences. Next may be empty.
	Reason, Next string
	// Repeated reports whether an earlier process may have sent it.
	Repeated bool
}

// NoticeCounts are numbers of nodes.
type NoticeCounts struct{ Nodes, Updated, Available, Failed int32 }

// ID identifies what a notice is about: it is the same when the notice is repeated, by whatever process. It has only hexadecimal digits.
func (n *Notice) ID() string {
	of := fmt.Sprintf("%q %q %d %d %q %q %d", n.UID, n.Revision, n.Number, n.Attempt, n.Wave, n.Type, n.Occurrence)
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:16])
}

// notice makes a notice of something that happens now.
func (r *run) notice(kind NoticeType, reason, next string) *Notice {
	st := r.out.Status
	n := Notice{
		Type: kind, Set: r.in.Set, Policy: r.p.Name, Revision: st.TargetRevision, Number: st.TargetNumber, Committed: st.CommittedRevision,
		Attempt: seconds(st.StartedAt), At: r.s.Now, Reason: reason, Next: next,
	}
	r.out.Notices = append(r.out.Notices, n)
	return &r.out.Notices[len(r.out.Notices)-1]
}

// waveNotice creates the notice for the phase of a wave. A wave that has passed has no notice; the following notices cover it.
func (r *run) waveNotice(w *v1alpha1.WaveStatus, repeated bool) {
	var n *Notice
	since := (*metav1.Time)(nil)
	switch w.Phase {
	case v1alpha1.WaveRolling:
		n, since = r.notice(NoticeWaveBegun, r.waveText(w), r.afterWave(w)), w.RollingSince
	case v1alpha1.WaveSoaking:
		n, since = r.notice(NoticeSoaking, r.waveText(w), r.afterWave(w)), w.CompletedAt
		n.Occurrence = seconds(w.CompletedAt)
	case v1alpha1.WaveWaitingForApproval:
		n, since = r.notice(NoticeAwaitingApproval, r.waveText(w), r.afterWave(w)), w.WaitingSince
		n.Occurrence = seconds(w.CompletedAt) // another process may have the wave wait again, after it has measured its analyses
	default:
		return
	}
	n.Wave, n.Counts, n.Repeated = w.Name, &NoticeCounts{w.Nodes, w.Updated, w.Available, w.Failed}, repeated
	if since != nil {
		n.At = rollout.Time(since.UnixNano())
	}
}

// waveText describes the phase that a wave is in.
func (r *run) waveText(w *v1alpha1.WaveStatus) string {
	target := r.out.Status.TargetRevision
	switch w.Phase {
	case v1alpha1.WaveRolling:
		when := ""
		if r.groupHolds(w.Name) {
			when = ", when its concurrency group allows that"
		}
		return fmt.Sprintf("The wave %s of revision %s begins on %s%s.", w.Name, target, nodeCount(w.Nodes), when)
	case v1alpha1.WaveSoaking:
		return fmt.Sprintf("The wave %s of revision %s is complete on %s and is being observed.", w.Name, target, nodeCount(w.Nodes))
	case v1alpha1.WaveWaitingForApproval:
		return fmt.Sprintf("The wave %s of revision %s is complete: to continue, run kubectl everynode approve %s -n %s, or create a RolloutApproval.", w.Name, target, r.in.Set.argument(), r.in.Set.Namespace)
	default:
		return fmt.Sprintf("The wave %s of revision %s has passed%s.", w.Name, target, who(r.howDecided(w.Approval), w.ApprovedBy, w.Approval))
	}
}

// howDecided says what a RolloutApproval has done to a wave.
func (r *run) howDecided(approval string) string {
	for i := range r.in.Approvals {
		if a := &r.in.Approvals[i]; a.Name == approval && a.Spec.Decision == v1alpha1.Promote {
			return ", promoted"
		}
	}
	return ", approved"
}

// who says which user has decided something, and with which RolloutApproval; empty if there is none.
func who(what, user, approval string) string {
	switch {
	case approval == "":
		return ""
	case user == "":
		return fmt.Sprintf("%s with rolloutapproval/%s", what, approval)
	default:
		return fmt.Sprintf("%s by %s with rolloutapproval/%s", what, Shortened(user, longestMessage), approval)
	}
}

// afterWave says what follows the phase that a wave is in.
func (r *run) afterWave(w *v1alpha1.WaveStatus) string {
	k := slices.IndexFunc(r.p.Waves, func(p Wave) bool { return p.Name == w.Name })
	if k < 0 {
		return ""
	}
	p, then := &r.p.Waves[k], r.followingWave(k)
	approved := then
	if p.Approval {
		approved = "the wave needs a RolloutApproval"
	}
	var parts []string
	switch w.Phase {
	case v1alpha1.WaveRolling:
		if parts = append(parts, "When all its nodes are updated and available, "); p.Soak > 0 {
			parts = append(parts, fmt.Sprintf("the wave is observed for %s.", p.Soak))
			break
		}
		parts = append(parts, approved, ".")
	case v1alpha1.WaveSoaking:
		if parts = append(parts, fmt.Sprintf("When it has been observed for %s", p.Soak)); len(p.Analysis) > 0 {
			parts = append(parts, " and its analyses pass")
		}
		parts = append(parts, ", ", approved, ".")
	default:
		parts = append(parts, "When the wave is approved, ", then, ".")
	}
	return strings.Join(parts, "")
}

// followingWave returns what begins when a wave has passed: the next wave with a node, or with an approval.
func (r *run) followingWave(k int) string {
	for i := k + 1; i < len(r.p.Waves) && i < len(r.waves); i++ {
		if r.waves[i].nodes+r.waves[i].absent > 0 || r.p.Waves[i].Approval {
			return fmt.Sprintf("the wave %s begins", r.p.Waves[i].Name)
		}
	}
	return "the rollout is complete"
}

// failedNotice makes the notice of a failure, unless the last decision has known it. If its undo begins later, that of the failure has not reported that nodes return.
func (r *run) failedNotice() {
	if r.last != nil && r.last.Failure != nil && (r.out.Status.Failure.UndoAt == nil || r.last.Failure.UndoAt != nil) {
		return
	}
	r.failureNotice(false)
}

func (r *run) failureNotice(repeated bool) {
	next := "Nothing starts until the template changes, or a RolloutApproval with the decision Retry is created."
	if stopped := blocking(r.out.Status, blockedUndoFailed); stopped != "" {
		next = stopped
	} else if r.failure.Undo && r.mayUndo() {
		next = fmt.Sprintf("The nodes return to the committed revision %s.", r.out.Status.CommittedRevision)
	}
	n := r.notice(NoticeFailed, r.whyUndone(), next)
	n.Wave, n.Repeated = r.failure.Wave, repeated
	for i := range r.out.Status.Waves {
		if w := &r.out.Status.Waves[i]; w.Name == n.Wave {
			n.Counts = &NoticeCounts{w.Nodes, w.Updated, w.Available, w.Failed}
		}
	}
	if f := r.out.Status.Failure; f != nil && undoBegan(f) != nil {
		n.At, n.Occurrence = rollout.Time(undoBegan(f).UnixNano()), -seconds(f.UndoAt) // it may stop in the same second
	}
}

// stopNotice makes the notice of an undo that has stopped: that of the failure has reported that nodes return. It may continue, and stop again, so the status keeps when it stopped.
func (r *run) stopNotice(reason string) {
	r.out.Status.UndoStoppedAt = second(r.s.Now)
	r.stoppedNotice(reason, r.out.Status.UndoStoppedAt, false)
}

func (r *run) stoppedNotice(reason string, at *metav1.Time, repeated bool) {
	n := r.notice(NoticeFailed, reason, "")
	if r.failure != nil {
		n.Wave = r.failure.Wave
	}
	n.At, n.Occurrence, n.Repeated = rollout.Time(at.UnixNano()), seconds(at), repeated
}

// keepStopped keeps when an undo stopped, as long as it has not continued.
func (r *run) keepStopped() {
	if last, st := r.in.Last, r.out.Status; last != nil && st.Phase == v1alpha1.PhaseFailed && (blocks(st, blockedUndoFailed) || r.last != nil && r.last.Failure != nil) {
		st.UndoStoppedAt = last.UndoStoppedAt
	}
}

// endNotice makes the notice of a rollout, or an undo, that has ended on all nodes.
func (r *run) endNotice(kind NoticeType, reason string) {
	n := r.notice(kind, reason, "")
	if kind == NoticeUndone && r.failure != nil {
		n.Wave = r.failure.Wave
		n.Next = "Nothing starts until the template changes, or a RolloutApproval with the decision Retry is created."
		return
	}
	n.Counts = &NoticeCounts{}
	for i := range r.s.Nodes {
		if !member(r.s, &r.s.Nodes[i]) || r.isLeftOut(i) {
			continue
		}
		n.Counts.Nodes++
		if r.standing[i].Updated {
			n.Counts.Updated++
		}
		if r.standing[i].Available {
			n.Counts.Available++
		}
	}
}

// repeatNotice repeats the newest notice about a rollout that another process has begun, unless this decision makes a newer one.
func (r *run) repeatNotice() {
	if !r.in.Restored || r.last == nil || len(r.out.Notices) > 0 {
		return
	}
	st, last := r.out.Status, r.in.Last
	if last.UndoStoppedAt != nil && last.Phase == v1alpha1.PhaseFailed && len(last.Blocking) > 0 && (r.failure != nil || r.undoing) {
		r.stoppedNotice(last.Blocking[0].Message, last.UndoStoppedAt, true)
		return
	}
	if r.atRest() {
		return
	}
	switch st.Phase {
	case v1alpha1.PhaseFailed, v1alpha1.PhaseUndoing:
		if st.Failure != nil && st.Failure.At != nil && r.failure != nil {
			r.failureNotice(true)
		}
	case v1alpha1.PhaseRolling, v1alpha1.PhaseWaitingForWindow, v1alpha1.PhaseSoaking, v1alpha1.PhaseWaitingForApproval:
		for i := range st.Waves {
			if st.Waves[i].Name == st.Wave && st.Waves[i].Nodes > 0 {
				r.waveNotice(&st.Waves[i], true)
			}
		}
	}
}

// seconds is a time of a status in seconds since 1970; 0 for none.
func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}

func nodeCount(n int32) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}
