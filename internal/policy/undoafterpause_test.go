// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// paused is a world in which the revision has failed in the canary, an hour ago, and its undo has not begun. It runs next to another controller, and a client owns the template, or the action is Pause.
func paused(t *testing.T, action v1alpha1.FailureAction, inPlace bool) *world {
	t.Helper()
	w := canary(t, strings.Replace(judgedStrictly(), "action: Undo", "action: "+string(action), 1))
	w.s.Set.InPlace = inPlace
	if action == v1alpha1.FailureUndo {
		w.s.Set.ExternalController, w.template = true, &policy.Template{Owners: []string{"argocd"}}
	}
	w.fails("a", pulls)
	w.pass(time.Second)
	w.pass(time.Hour)
	if w.last.Phase != v1alpha1.PhaseFailed || w.last.Failure.UndoAt != nil {
		t.Fatalf("the phase is %s, %+v", w.last.Phase, w.last.Failure)
	}
	return w
}

// asks lets the undo of paused begin.
func (w *world) asks() {
	w.t.Helper()
	if w.template != nil {
		w.s.Set.ExternalController, w.template = false, nil
		return
	}
	w.approve("undo", "", strings.TrimPrefix(w.last.TargetRevision, "agent-"), v1alpha1.UndoRollout)
}

// TestAnUndoLongAfterTheFailure: a user asks for the undo some time after the revision has failed, or it was not possible before. A pod of the committed revision that was created, and restarted, in the meantime,
// is none that the undo has created: it does not stop it, whichever manager sees it.
func TestAnUndoLongAfterTheFailure(t *testing.T) {
	for name, c := range map[string]struct {
		action  v1alpha1.FailureAction
		inPlace bool
		lead    bool
	}{
		"after a pause": {action: v1alpha1.FailurePause}, "after a pause, another manager": {action: v1alpha1.FailurePause, lead: true},
		"it was not possible": {action: v1alpha1.FailureUndo}, "it was not possible, another manager": {action: v1alpha1.FailureUndo, lead: true},
		"in place": {action: v1alpha1.FailurePause, inPlace: true}, "in place, another manager": {action: v1alpha1.FailurePause, inPlace: true, lead: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := paused(t, c.action, c.inPlace)
			w.put("j", 0, true)
			p := &w.node("j").Pods[0]
			p.Created, p.ReadySince, p.Restarts = w.s.Now.Add(-2*time.Minute), w.s.Now.Add(-time.Minute), 9
			w.asks()
			for i := range 4 {
				w.pass(time.Second)
				if w.last.Phase != v1alpha1.PhaseUndoing {
					t.Fatalf("decision %d: the phase is %s: %+v", i, w.last.Phase, w.last.Blocking)
				}
				if w.last = w.last.DeepCopy(); c.lead && i == 1 {
					w.lead()
				}
				if i == 2 {
					p.Restarts += 9
				}
			}
		})
	}
}

// TestAnUndoThatIsNotPossibleForAMoment: pods that an undo has created count for it also after it was not possible for some time.
func TestAnUndoThatIsNotPossibleForAMoment(t *testing.T) {
	w := canary(t, judgedStrictly())
	w.fails("a", pulls)
	w.pass(time.Second)
	w.pass(time.Second)
	if w.last.Phase != v1alpha1.PhaseUndoing {
		t.Fatalf("the phase is %s", w.last.Phase)
	}
	w.s.Now = w.s.Now.Add(time.Second)
	w.put("a", 0, true)
	w.node("a").Pods[0].UID = "back"
	w.s.Set.ExternalController, w.template = true, &policy.Template{Owners: []string{"argocd"}}
	w.pass(time.Second)
	w.say("UndoNotPossible", "argocd")
	w.node("a").Pods[0].Restarts = 9
	w.s.Set.ExternalController, w.template = false, nil
	w.lead()
	w.pass(time.Second)
	if !policy.UndoStopped(w.last) || w.last.Failure.UndoAt != nil {
		t.Errorf("the phase is %s: %+v, %+v", w.last.Phase, w.last.Blocking, w.last.Failure)
	}
}

// TestNoticeOfAnUndoThatBeginsLater: the notice of the failure did not report that nodes return. Another one with an identity of its own does, once, and another manager repeats that one.
func TestNoticeOfAnUndoThatBeginsLater(t *testing.T) {
	for _, action := range []v1alpha1.FailureAction{v1alpha1.FailurePause, v1alpha1.FailureUndo} {
		w := paused(t, action, false)
		failed := w.notices[len(w.notices)-1]
		w.notices = nil
		w.asks()
		w.pass(time.Second)
		at := w.s.Now
		w.pass(time.Second)
		if len(w.notices) != 1 {
			t.Fatalf("%s: notices %+v", action, w.notices)
		}
		n := w.notices[0]
		asked := " The undo was requested by ada."
		if action == v1alpha1.FailureUndo {
			asked = ""
		}
		if n.Reason != failed.Reason+asked {
			t.Errorf("%s: the reason is %q", action, n.Reason)
		}
		if n.Type != policy.NoticeFailed || n.ID() == failed.ID() || n.Next != "The nodes return to the committed revision agent-v1." || n.At != at || n.Wave != "canary" {
			t.Errorf("%s: %+v after %+v", action, n, failed)
		}
		whole := metav1.NewTime(w.last.Failure.UndoAt.Truncate(time.Second))
		w.last = w.last.DeepCopy()
		w.last.Failure.UndoAt = &whole
		w.repeats(n)
	}
}
