// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// What a pod did before the rollout, or the undo, began does not count. When that was is in the status, so it holds for each manager, and for programs that decide once.

// beganAt is when the rollout, or the undo, began, in whole seconds, as pods have their times; 0 if that is not known, because a status was lost or restored.
func (r *run) beganAt() rollout.Time {
	began := r.out.Status.StartedAt
	switch f := r.out.Status.Failure; {
	case r.undoing && f != nil && f.NewestPod != nil:
		return afterNewest(f)
	case r.undoing && f != nil && undoBegan(f) != nil:
		began = undoBegan(f)
	case r.undoing: // by the template
	case r.last != nil && r.last.StartedAt == nil, r.last == nil && r.knowsNothing() && r.anyMark:
		return 0
	}
	return inSeconds(began)
}

// undoBeginsLater reports whether an undo begins now, and the revision has failed before: a user asks for it after a pause, or it was not possible. An undo that has stopped because it was not possible for
// some time has begun before: what it created counts for it.
func (r *run) undoBeginsLater() bool {
	if r.last == nil || r.last.Failure == nil || !r.failure.Undo || !r.mayUndo() {
		return false
	}
	return r.last.Failure.Action != v1alpha1.FailureUndo || blocks(r.last, blockedNoUndo) && r.last.UndoStoppedAt == nil
}

// undoBegan is when an undo began, if the status has that.
func undoBegan(f *v1alpha1.RolloutFailure) *metav1.Time {
	if f.UndoAt != nil {
		return f.UndoAt
	}
	return f.At
}

// afterNewest is the first time after the newest pod of before a failure was created. Pods, and their restarts, have the times of the API server's clock, from which the manager's may differ.
func afterNewest(f *v1alpha1.RolloutFailure) rollout.Time {
	return inSeconds(f.NewestPod) + rollout.Time(time.Second)
}

// newestPod is when the newest pod of the set was created; nil if there is none.
func (r *run) newestPod() *metav1.Time {
	newest := rollout.Time(0)
	for i := range r.s.Nodes {
		for k := range r.s.Nodes[i].Pods {
			newest = max(newest, r.s.Nodes[i].Pods[k].Created)
		}
	}
	if newest == 0 {
		return nil
	}
	return second(newest)
}

func inSeconds(at *metav1.Time) rollout.Time {
	if at == nil {
		return 0
	}
	return rollout.Time(at.Unix()) * rollout.Time(time.Second)
}

// outlived reports whether the rollout has found a pod of its revision: how often that was restarted before does not count.
func (r *run) outlived(p *rollout.Pod) bool { return !r.undoing && p.Created < r.beganAt() }

// untouched reports whether an undo has found a pod of the committed revision. An older pod may also have been changed back in place, by this undo: at its first decision, none has
// been, and another manager sees it from the time since when the pod is ready.
func (r *run) untouched(p *rollout.Pod) bool {
	switch began := r.beganAt(); {
	case !r.undoing || p.Created >= began:
		return false
	case !r.s.Set.InPlace:
		return true
	case r.in.Watch == nil:
		return p.Ready && p.ReadySince < r.undoBeganAt(began)
	default:
		return !r.watched(r.s.Set.Update)
	}
}

// undoBeganAt is when the undo began, by the manager's clock, if the status has that.
func (r *run) undoBeganAt(began rollout.Time) rollout.Time {
	if f := r.out.Status.Failure; f != nil && undoBegan(f) != nil {
		return inSeconds(undoBegan(f))
	}
	return began
}

// madeByUndo reports whether a pod that this manager sees for the first time has been created since the undo began, by a manager before. What it was before is in the status then.
func (r *run) madeByUndo(p *rollout.Pod) bool {
	began := r.beganAt()
	return r.undoing && r.in.Watch == nil && began != 0 && p.Created >= began
}

// earlierRestarts are the restarts of a pod that do not count: those before the rollout, and before the pod was changed in place. The change itself is one, or one for each container
// that it restarts.
func (r *run) earlierRestarts(p *rollout.Pod) uint16 {
	first := r.last == nil || r.in.Watch == nil // later decisions have seen each of its restarts
	switch {
	case !r.changedInPlace(p) && !(first && r.outlived(p)):
		return 0
	case p.InPlace == rollout.InPlacePatched || p.InPlace == rollout.InPlaceAnnounced:
		return uint16(min(int(p.Restarts)+max(1, int(p.Recreates)), math.MaxUint16)) // no more are counted
	default:
		return p.Restarts
	}
}

// changedInPlace reports whether a pod of the wanted revision had another one first.
func (r *run) changedInPlace(p *rollout.Pod) bool {
	return r.s.Set.InPlace && r.cameToNodes() > p.Created
}

// cameToNodes is a time from which on pods were created with the revision: an older pod of it was changed in place. Of a revision that is newer than the committed one, that is
// when it was made, for a status may be lost, or when its rollout began, for it may have been undone before; of one to which the set returns, when the undo or the rollout began.
func (r *run) cameToNodes() rollout.Time {
	made, began := r.s.Revisions[r.s.Set.Update].Created, inSeconds(r.out.Status.StartedAt)
	if r.undoing {
		began = r.beganAt()
	}
	switch {
	case r.undoing && began != 0:
		return began
	case began != 0 && r.committed >= 0 && r.committed < len(r.s.Revisions) && made < r.s.Revisions[r.committed].Created:
		return began
	default:
		return max(made, r.beganAt())
	}
}
