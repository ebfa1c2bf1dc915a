// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// concerns reports whether an approval is about the set and policy of this run. A rejection is about the revision, under each policy: otherwise a policy with another name
// would roll the revision out.
func (r *run) concerns(a *v1alpha1.RolloutApproval) bool {
	return (r.named(a) || a.Spec.Decision == v1alpha1.Reject) && a.Spec.Set == r.in.Set.Name && a.DeletionTimestamp == nil
}

// named reports whether an approval names the policy.
func (r *run) named(a *v1alpha1.RolloutApproval) bool { return a.Spec.Policy == r.p.Name }

// aboutTarget reports whether an approval is about the revision that the template describes.
func (r *run) aboutTarget(a *v1alpha1.RolloutApproval) bool {
	return r.concerns(a) && r.describes(a.Spec.Revision) && r.target().Name != ""
}

// aboutGone reports whether an approval holds a revision whose ControllerRevision is gone: the template may be that of a copy of it. What releases nodes does not count then.
func (r *run) aboutGone(a *v1alpha1.RolloutApproval) bool {
	return holds(a) && r.named(a) && r.concerns(a) && !r.hasRevision(a.Spec.Revision)
}

// holds reports whether an approval keeps nodes from a revision.
func holds(a *v1alpha1.RolloutApproval) bool {
	return a.Spec.Decision == v1alpha1.Reject || a.Spec.Decision == v1alpha1.UndoRollout
}

// hasRevision reports whether the history has a revision of that name.
func (r *run) hasRevision(name string) bool {
	return slices.ContainsFunc(r.in.Revisions, func(rev Revision) bool { return rev.Name == name })
}

// judged reports whether an approval has the state that makes it count for the active rollout. It takes effect when the state is stored.
func (r *run) judged(a *v1alpha1.RolloutApproval) bool {
	return (r.aboutTarget(a) || r.aboutGone(a)) && a.Status.State == v1alpha1.ApprovalValid && a.Status.TargetNumber == r.number()
}

// stored reports whether the state of an approval has been read back: the next manager knows it too.
func (r *run) stored(a *v1alpha1.RolloutApproval) bool {
	return a.Status.State != "" && !r.in.Unstored[a.Name]
}

// counts reports whether an approval has an effect on the attempt that is active. Approve and Promote count when their state is stored, for one attempt. Reject and Undo
// count at once, because they release nothing that the committed revision does not allow: a write that is
// refused must not keep them from it. A daemon set that was created again, or whose ControllerRevisions an account has deleted, can have a rollout with the number of an earlier one, so what
// releases nodes must not be older than the rollout either. An Undo without an attempt was handled by an earlier version of the
// manager, and has had its effect.
func (r *run) counts(a *v1alpha1.RolloutApproval) bool {
	switch a.Spec.Decision {
	case v1alpha1.Reject:
		return r.judged(a) || r.aboutTarget(a) && a.Status.State == ""
	case v1alpha1.UndoRollout:
		return r.judged(a) && a.Status.Attempt >= r.attempt || r.aboutTarget(a) && a.Status.State == ""
	default:
		return r.judged(a) && r.stored(a) && max(a.Status.Attempt, 1) == r.attempt && !r.early(a)
	}
}

// findAttempt determines which attempt of the rollout is active: the one in the status, or a later one that a Retry has begun. A Retry whose state is not
// stored has only been asked for.
func (r *run) findAttempt() {
	r.begun = 1
	if r.last != nil {
		r.begun = max(r.last.Attempt, 1)
	}
	r.attempt = r.begun
	for i := range r.in.Approvals {
		if a := &r.in.Approvals[i]; a.Spec.Decision == v1alpha1.Retry && r.judged(a) {
			r.asked = max(r.asked, a.Status.Attempt)
			if r.stored(a) {
				r.attempt = max(r.attempt, a.Status.Attempt)
			}
		}
	}
	r.asked = max(r.asked, r.attempt)
	if r.last == nil {
		r.begun = r.attempt // nothing is known that a retry could end
	}
}

// decided returns the first decision of that kind about a wave; nil for none.
func (r *run) decided(decision v1alpha1.Decision, wave string) *v1alpha1.RolloutApproval {
	for i := range r.in.Approvals {
		if a := &r.in.Approvals[i]; a.Spec.Decision == decision && (wave == "" || a.Spec.Wave == wave) && r.counts(a) {
			return a
		}
	}
	return nil
}

func (r *run) approved(w *Wave) *v1alpha1.RolloutApproval {
	return r.decided(v1alpha1.Approve, w.Name)
}

func (r *run) rejected() bool { return r.decided(v1alpha1.Reject, "") != nil }

// judge sets the state of each approval without one: so an approval does not count again if the template changes and returns later.
func (r *run) judge() {
	if r.target().Name == "" {
		return
	}
	for i := range r.in.Approvals {
		a := &r.in.Approvals[i]
		if a.Status.State != "" || !r.concerns(a) {
			continue
		}
		if !r.hasRevision(a.Spec.Revision) || !r.named(a) && (r.atRest() || !r.aboutTarget(a)) {
			continue // it may be about a set of another kind with this name, or its policy may judge it
		}
		judged := *a.DeepCopy()
		judged.Status = v1alpha1.RolloutApprovalStatus{State: v1alpha1.ApprovalVoid, Message: Shortened(r.voidText(a), longestDecision-len("..."))}
		if r.aboutTarget(a) && !r.atRest() && !r.early(a) {
			if r.p.lacksWave(a) {
				continue // a user may have written it together with the wave, of which nothing is known yet
			}
			attempt, waits := r.attemptOf(a)
			if waits {
				continue
			}
			judged.Status = v1alpha1.RolloutApprovalStatus{State: v1alpha1.ApprovalValid, TargetNumber: r.number(), Attempt: attempt}
			if a.Spec.Decision == v1alpha1.Promote && a.Spec.Wave == r.out.Status.Wave {
				r.halt.note(&judged.Status)
			}
		}
		r.out.Judged = append(r.out.Judged, judged)
	}
}

// voidText says why an approval never counts.
func (r *run) voidText(a *v1alpha1.RolloutApproval) string {
	text := fmt.Sprintf("The decision is about revision %s, and the template of the daemon set describes %s.", a.Spec.Revision, r.target().Name)
	if r.aboutTarget(a) && r.early(a) {
		text = fmt.Sprintf("The decision is older than the rollout of revision %s, which began at %s.", a.Spec.Revision, time.Unix(0, int64(r.start())).UTC().Format(time.RFC3339))
		return text + " Create another RolloutApproval."
	} else if r.aboutTarget(a) {
		text = fmt.Sprintf("Revision %s is committed already, so there is no rollout to decide about.", a.Spec.Revision)
	}
	if r.p.lacksWave(a) {
		text += " " + r.noWaveText(a.Spec.Wave)
	}
	return text + " If this changes, create another RolloutApproval."
}

// longestDecision is how many characters the message of a decision may have. The status of the policy can contain it, too, and the API server refuses a longer one with everything that is written together with it.
const longestDecision = 1024

// sameMoment is how much older than the rollout a decision may be: both times are whole seconds, and users may apply a template and a decision about it in any order.
const sameMoment = time.Second

// early reports whether a decision that releases nodes was created before the rollout. It is only for the rollout that is active when it is created.
func (r *run) early(a *v1alpha1.RolloutApproval) bool {
	if holds(a) || r.atRest() {
		return false
	}
	tolerance, start := sameMoment, r.start()
	if start != r.s.Revisions[r.template].Created {
		tolerance = ClocksDiffer
	}
	return rollout.At(a.CreationTimestamp.Time).Add(tolerance) < start
}

// ClocksDiffer is how much the clocks of the manager and of the API server may differ. It is the tolerance where the manager's clock says when a rollout began: that of a revision which the history had
// before, so an earlier decision about it is void already, unless no manager was active.
const ClocksDiffer = time.Minute

// start is when the rollout began; 0 if that is not known. The manager's clock wrote that time, and that of the API server those of decisions and revisions. So if the revision is the
// newest one, the rollout began with it, and the difference between the clocks does not matter. A time in the future was written before a clock was set back.
func (r *run) start() rollout.Time {
	at := r.out.Status.StartedAt
	if r.last != nil && r.last.StartedAt != nil {
		at = r.last.StartedAt // a retry that begins now has changed the other one
	}
	began, created, newest := rollout.At(at.Truncate(time.Second)), r.s.Revisions[r.template].Created, true
	for i := range r.in.Revisions {
		newest = newest && (r.in.Revisions[i].Foreign || r.s.Revisions[i].Created <= created)
	}
	if newest {
		began = rollout.Earlier(began, created)
	}
	if began > r.s.Now {
		return 0
	}
	return began
}

// hasWave reports whether the policy has a wave of that name.
func (p *Policy) hasWave(name string) bool {
	return slices.ContainsFunc(p.Waves, func(w Wave) bool { return w.Name == name })
}

// lacksWave reports whether an approval is about a wave that the policy does not have.
func (p *Policy) lacksWave(a *v1alpha1.RolloutApproval) bool {
	return (a.Spec.Decision == v1alpha1.Approve || a.Spec.Decision == v1alpha1.Promote) && !p.hasWave(a.Spec.Wave)
}

// mostWaves is how many waves of a policy a message names.
const mostWaves = 10

func (r *run) noWaveText(wave string) string {
	waves := make([]string, 0, len(r.p.Waves))
	for k := range r.p.Waves {
		waves = append(waves, r.p.Waves[k].Name)
	}
	return fmt.Sprintf("The policy has no wave %s: it has %s.", wave, some(waves, mostWaves))
}

// unknownWave is the reason in blocking while an approval of the active rollout names a wave that the policy does not have.
const unknownWave = "UnknownWave"

// reportUnknownWave reports the first approval that has no effect because the policy does not have its wave.
func (r *run) reportUnknownWave() {
	if r.atRest() || r.target().Name == "" {
		return
	}
	for i := range r.in.Approvals {
		if a := &r.in.Approvals[i]; a.Status.State == "" && r.aboutTarget(a) && r.p.lacksWave(a) && !r.early(a) {
			r.block(unknownWave, fmt.Sprintf("rolloutapproval/%s has no effect yet. %s Create another RolloutApproval, or add the wave.", a.Name, r.noWaveText(a.Spec.Wave)))
			return
		}
	}
}

// attemptOf is the attempt that an approval counts for. A Retry begins the next one if the revision has
// failed. It waits until the state of each earlier Undo is stored: otherwise the next manager would treat it
// as an undo of the new attempt. If a user requested an undo after the Retry, the undo wins.
func (r *run) attemptOf(a *v1alpha1.RolloutApproval) (attempt int64, waits bool) {
	if a.Spec.Decision != v1alpha1.Retry || r.asked > r.begun {
		return r.asked, false
	}
	for i := range r.in.Approvals {
		undo := &r.in.Approvals[i]
		if undo.Spec.Decision != v1alpha1.UndoRollout || !r.counts(undo) {
			continue
		}
		if undo.CreationTimestamp.After(a.CreationTimestamp.Time) {
			return r.asked, false
		}
		waits = waits || !r.stored(undo)
	}
	failed := r.last != nil && r.last.Failure != nil
	if failed || r.failure == nil && r.markedFailed() != nil {
		return r.asked + 1, waits
	}
	return r.asked, waits
}

// names are the names of policies.
func names(policies []*Policy) string {
	all := make([]string, 0, len(policies))
	for _, p := range policies {
		all = append(all, p.Name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// enforcement is what a policy controls of a set.
func enforcement(set *rollout.Set) v1alpha1.Enforcement {
	switch {
	case set.Strategy != rollout.RollingUpdate && set.Announce:
		return v1alpha1.EnforcementAnnouncements
	case set.Strategy != rollout.RollingUpdate: // also one that another controller rolls
		return v1alpha1.EnforcementNone
	case set.ExternalController:
		return v1alpha1.EnforcementOnDelete
	default:
		return v1alpha1.EnforcementFull
	}
}
