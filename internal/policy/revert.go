// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// Template describes the template of a set whose pods another controller creates. An undo of such a set must change the template.
type Template struct {
	// Owners are the field managers that may write it again.
	Owners []string
	// Refused is the reason why the last attempt to change it failed; empty if none has. RetryAt is when the next one may be made; 0 means at once.
	Refused string
	RetryAt rollout.Time
}

// Reported returns the Template for a program that does not change templates: it contains only the owners of
// the template, and whether the status of the policy reports a refused change.
func Reported(st *v1alpha1.SetStatus, owners []string) *Template {
	known := &Template{Owners: owners}
	if st != nil && blocks(st, blockedRefused) {
		known.Refused = "the API server refuses it."
	}
	return known
}

// The reasons in blocking for an undo that changes the template.
const (
	blockedUndone  = "Undone"
	blockedRefused = "UndoRefused"
)

// RefusedPause is the delay before a refused change of the template is tried again.
const RefusedPause = time.Minute

// revert has the template changed to the committed revision. That counts when the stored status has the phase and the rejected revision: then the next manager knows that it was Everynode who
// changed it, and does not roll the failed revision out again if it returns. It does nothing if the template of the revision differs from the committed one.
func (r *run) revert() {
	st := r.out.Status
	st.Phase, st.Wave = v1alpha1.PhaseUndoing, r.failure.Wave
	r.reportFailure()
	switch {
	case r.p.Suspend:
		r.block("Failed", r.failure.Message+" The template is to be changed back to the committed revision.")
		r.suspend()
		return
	case r.in.Template.Refused != "":
		st.Phase = v1alpha1.PhaseFailed
		r.block(blockedRefused, fmt.Sprintf("%s The template cannot be changed back to the committed revision: %s Change the template, or let Everynode change it.", r.failure.Message, r.in.Template.Refused))
		if retry := r.in.Template.RetryAt; retry > r.s.Now {
			r.wakeAt(retry)
			return
		}
	default:
		r.block("Failed", r.failure.Message+" The template is being changed back to the committed revision.")
	}
	if was := r.in.Stored; was != nil && was.TargetRevision == st.TargetRevision && was.TargetNumber == st.TargetNumber && was.RejectedRevision == st.RejectedRevision &&
		was.CommittedRevision == st.CommittedRevision && was.CommittedDigest == st.CommittedDigest && (was.Phase == v1alpha1.PhaseUndoing || blocks(was, blockedRefused)) {
		r.out.Revert = r.committed
		return
	}
	r.wakeAt(r.s.Now.Add(time.Second))
}

// blocks reports whether a status has an entry with that reason.
func blocks(st *v1alpha1.SetStatus, reason string) bool { return blocking(st, reason) != "" }

// UndoHeld returns why an undo that was decided does not return any node now, and the reason in blocking; empty if it does, or has ended.
func UndoHeld(st *v1alpha1.SetStatus) (reason, message string) {
	for _, reason := range []string{blockedNoUndo, blockedRefused, blockedUndoFailed} {
		if message := blocking(st, reason); message != "" {
			return reason, message
		}
	}
	return "", ""
}

// blocking returns the message of the entry with that reason; empty if there is none.
func blocking(st *v1alpha1.SetStatus, reason string) string {
	i := slices.IndexFunc(st.Blocking, func(b v1alpha1.Blocking) bool { return b.Reason == reason })
	if i < 0 {
		return ""
	}
	return st.Blocking[i].Message
}

// reverted reports whether the template describes the committed revision because Everynode has changed it, and which revision this has undone.
func (r *run) reverted() (rejected string, is bool) {
	last := r.in.Last
	if last == nil || !r.s.Set.ExternalController || last.RejectedRevision == "" || last.RejectedRevision == r.target().Name || last.CommittedRevision != r.target().Name {
		return "", false
	}
	just := last.TargetRevision == last.RejectedRevision && last.Failure != nil && (last.Phase == v1alpha1.PhaseUndoing || blocks(last, blockedRefused))
	return last.RejectedRevision, just || last.TargetRevision == last.CommittedRevision
}

// findReverted determines whether nodes must still return from a revision because Everynode has changed the template back.
func (r *run) findReverted() {
	rejected, is := r.reverted()
	if !is || r.in.Last.Phase == v1alpha1.PhaseComplete {
		return
	}
	r.undoing, r.out.Status.StartedAt = true, r.in.Last.StartedAt
	if f := r.in.Last.Failure; r.last == nil && f != nil {
		if r.out.Status.StartedAt = undoBegan(f); f.NewestPod != nil {
			r.out.Status.StartedAt = second(afterNewest(f))
		}
	}
	r.from = slices.IndexFunc(r.in.Revisions, func(rev Revision) bool { return rev.Name == rejected }) // rollout.NoRevision if it was deleted, as for its pods
}

// goBack limits what settle allows where Everynode has changed the template: as for an undo that leaves it. The status keeps the revision that was undone.
func (r *run) goBack() {
	rejected, is := r.reverted()
	if !is {
		return
	}
	st := r.out.Status
	st.RejectedRevision = rejected
	message := blocking(r.in.Last, blockedUndone)
	if message == "" {
		message = fmt.Sprintf("Revision %s was undone, and the template changed back to the committed revision.", rejected)
		if of := r.in.Last.Failure; of != nil { // another client may have edited the status
			message += " " + of.Message
		}
	}
	r.block(blockedUndone, message)
	if st.Phase != v1alpha1.PhaseUndoing {
		return
	}
	r.out.MaxUnavailable = r.undoLimit()
	r.windowsOfUndo()
	r.judgeUndo()
}

// cameBack reports whether the template again describes a revision that was undone: another client has
// changed it after Everynode. It is not undone again, so that the two clients do not change the template in
// turns.
func (r *run) cameBack() bool {
	last := r.in.Last
	return last != nil && r.s.Set.ExternalController && r.last == nil && r.describes(last.RejectedRevision) &&
		last.TargetRevision == last.CommittedRevision && last.CommittedRevision != r.target().Name
}

// failAgain is the failure of a revision that came back.
func (r *run) failAgain() *everynode.Failure {
	return &everynode.Failure{Number: r.revisionNumber(), Message: fmt.Sprintf("Revision %s was undone, and another user has changed the template to it again.", r.target().Name)}
}

// ownersOfTemplate returns the reason why the template must not be changed; empty if it may be changed.
func (r *run) ownersOfTemplate() string {
	switch of := r.in.Template; {
	case of == nil:
		return "another controller creates the pods from the template"
	case len(of.Owners) > 0:
		return "another controller creates the pods from the template, and " + strings.Join(of.Owners, ", ") + " may write the template again (metadata.managedFields)"
	default:
		return ""
	}
}
