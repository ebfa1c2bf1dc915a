// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// stopped is the notice of an undo that has stopped.
func (w *world) stopped() policy.Notice {
	w.t.Helper()
	w.say("UndoFailed", "The undo has stopped")
	n := w.notices[len(w.notices)-1]
	if n.Type != policy.NoticeFailed || n.Repeated || !strings.HasPrefix(n.Reason, "The undo has stopped: on ") {
		w.t.Fatalf("%+v", n)
	}
	return n
}

// repeats wants another manager to repeat a notice, once.
func (w *world) repeats(want policy.Notice) {
	w.t.Helper()
	w.notices = nil
	w.lead()
	if at := w.last.UndoStoppedAt; at != nil { // as it is stored
		whole := metav1.NewTime(at.Truncate(time.Second))
		w.last.UndoStoppedAt = &whole
	}
	w.pass(time.Second)
	w.pass(time.Second)
	if len(w.notices) != 1 {
		w.t.Fatalf("%d notices: %+v", len(w.notices), w.notices)
	}
	if n := w.notices[0]; n.ID() != want.ID() || !n.Repeated || n.Reason != want.Reason || n.Next != want.Next || n.Wave != want.Wave {
		w.t.Errorf("repeated %+v, want %+v", n, want)
	}
}

// TestTheNoticeOfAnUndoThatStopped: another manager repeats it, with its identity. That the manager before has sent it is not known.
func TestTheNoticeOfAnUndoThatStopped(t *testing.T) {
	w, first := allUndone(t)
	w.policies[0].Failure.Waiting = rollout.WaitingFor("ImagePullBackOff")
	w.fails(first, pulls)
	w.pass(time.Second)
	was := w.stopped()
	w.pass(time.Minute)
	w.repeats(was)
	w.repeats(was)
	w.put(first, 0, true)
	w.pass(time.Second)
	if w.last.Phase != v1alpha1.PhaseUndoing || w.last.UndoStoppedAt != nil {
		t.Errorf("phase %s, stopped at %v", w.last.Phase, w.last.UndoStoppedAt)
	}
	w.fails(first, pulls)
	w.pass(time.Second)
	if again := w.stopped(); again.ID() == was.ID() {
		t.Errorf("it stops again with the identity of before: %+v", again)
	}
}

// TestTheNoticeOfAnUndoThatStoppedAtADeadline: another manager measures the time again, so the undo continues at first. The notice of before is repeated all the same.
func TestTheNoticeOfAnUndoThatStoppedAtADeadline(t *testing.T) {
	w, _ := allUndone(t)
	w.pass(5 * time.Minute)
	was := w.stopped()
	w.repeats(was)
	if w.last.Phase != v1alpha1.PhaseUndoing {
		t.Errorf("phase %s", w.last.Phase)
	}
	w.pass(5 * time.Minute)
	if again := w.stopped(); again.ID() == was.ID() {
		t.Errorf("it stops again with the identity of before: %+v", again)
	}
}

// TestTheNoticeOfAnUndoByTheTemplateThatStopped: the template describes the committed revision then.
func TestTheNoticeOfAnUndoByTheTemplateThatStopped(t *testing.T) {
	w := changedBack(t, judgedStrictly()+"undo: {maxUnavailable: 1}\n")
	w.pass(time.Second)
	w.want("ab", v1alpha1.PhaseUndoing, "")
	w.fails("a", pulls)
	w.pass(time.Second)
	w.repeats(w.stopped())
}

// TestTheNoticeAfterAStatusOfAnEarlierVersion: it does not have the time, so the notice of the failure is repeated, and does not say that the nodes return.
func TestTheNoticeAfterAStatusOfAnEarlierVersion(t *testing.T) {
	w, first := allUndone(t)
	w.policies[0].Failure.Waiting = rollout.WaitingFor("ImagePullBackOff")
	w.fails(first, pulls)
	w.pass(time.Second)
	w.stopped()
	w.notices, w.last.UndoStoppedAt = nil, nil
	w.lead()
	w.pass(time.Second)
	if len(w.notices) != 1 || !strings.HasPrefix(w.notices[0].Next, "The undo has stopped: on 1 node") {
		t.Errorf("%+v", w.notices)
	}
}

// TestTheNoticeAfterAnUndoThatEnded: an undo that has continued after a stop, and has ended, repeats no stop.
func TestTheNoticeAfterAnUndoThatEnded(t *testing.T) {
	w := canary(t, judgedStrictly())
	w.fails("a", pulls)
	w.pass(time.Second)
	w.pass(time.Second)
	for _, name := range []string{"a", "b", "c"} {
		w.put(name, 0, true)
		w.fails(name, pulls)
	}
	w.pass(time.Second)
	w.stopped()
	for _, name := range []string{"a", "b", "c"} {
		w.put(name, 0, true)
	}
	w.pass(time.Second)
	w.notices = nil
	w.lead()
	w.pass(time.Second)
	if w.last.UndoStoppedAt != nil || len(w.notices) != 1 || strings.Contains(w.notices[0].Reason+w.notices[0].Next, "stopped") {
		t.Errorf("stopped at %v, %+v", w.last.UndoStoppedAt, w.notices)
	}
}
