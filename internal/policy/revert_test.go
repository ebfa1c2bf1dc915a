// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// alongside is a rollout next to another controller which fails on two nodes of the canary; a is the youngest one. It is as far as its status says so.
func alongside(t *testing.T, spec string) *world {
	t.Helper()
	w := canary(t, spec)
	w.s.Set.ExternalController, w.template = true, &policy.Template{}
	for _, name := range []string{"b", "a"} {
		w.s.Now = w.s.Now.Add(time.Second)
		w.put(name, 1, true)
		w.fails(name, pulls)
	}
	w.remember()
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	return w
}

// remember stores what was reported last.
func (w *world) remember() { w.stored = w.last.DeepCopy() }

// say checks that blocking has an entry with a reason and a text.
func (w *world) say(reason, text string) {
	w.t.Helper()
	for _, b := range w.last.Blocking {
		if b.Reason == reason && strings.Contains(b.Message, text) {
			return
		}
	}
	w.t.Errorf("blocking says %+v, want %s with %q", w.last.Blocking, reason, text)
}

// templateIs is the other controller having written the history of another template.
func (w *world) templateIs(revision int, number int64) {
	w.s.Set.Update = revision
	w.s.Revisions[revision].Number = number
}

// reverts wants the template changed to a revision.
func (w *world) reverts(revision int) {
	w.t.Helper()
	if w.out.Revert != revision {
		w.t.Fatalf("the template is to be changed to %d, want %d: %+v", w.out.Revert, revision, w.last)
	}
}

// changedBack is alongside with the template changed back.
func changedBack(t *testing.T, spec string) *world {
	t.Helper()
	w := alongside(t, spec)
	w.pass(time.Second)
	w.reverts(rollout.NoRevision) // the status does not say so yet
	w.remember()
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseUndoing, "canary")
	w.reverts(0)
	w.templateIs(0, 3)
	return w
}

// The template is changed when the stored status says so, and the nodes return with the youngest first, within the limit of undos. What was undone stays known.
func TestUndoByTheTemplate(t *testing.T) {
	for name, restored := range map[string]bool{"the same manager": false, "the next one, with what was stored before the change": true} {
		t.Run(name, func(t *testing.T) {
			w := changedBack(t, judged+"undo: {maxUnavailable: 2}\n")
			if restored {
				w.last, w.restored = w.stored, true
			}
			w.pass(time.Second)
			w.want("ab", v1alpha1.PhaseUndoing, "")
			w.say("Undone", "Revision agent-v2 was undone, and the template changed back to the committed revision. Wave canary failed")
			w.pass(time.Second)
			w.want("c", v1alpha1.PhaseUndoing, "")
			w.reverts(rollout.NoRevision)
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseComplete, "")
			w.last, w.restored = w.last.DeepCopy(), true
			w.pass(time.Hour)
			w.want("", v1alpha1.PhaseComplete, "")
			w.say("Undone", "Wave canary failed")
			if st := w.last; st.RejectedRevision != "agent-v2" || st.TargetRevision != "agent-v1" || st.Failure != nil {
				t.Errorf("the status is %+v", st)
			}
			ends := 0
			for _, reason := range w.events {
				if reason == policy.ReasonRolloutUndoEnded {
					ends++
				}
			}
			if kinds := w.noticeTypes(); ends != 1 || !strings.HasSuffix(kinds, "failed undone") {
				t.Errorf("%d events say that the undo has ended, and the notices are %s", ends, kinds)
			}
		})
	}
}

// noticeTypes are the types of all notices.
func (w *world) noticeTypes() string {
	var all []string
	for i := range w.notices {
		all = append(all, string(w.notices[i].Type))
	}
	return strings.Join(all, " ")
}

// A revision that returns after its undo is not undone again, by a failure or by a decision, until a user retries it; then it may be undone once more. Another one is rolled out.
func TestRevisionThatReturnsAfterItsUndo(t *testing.T) {
	w := changedBack(t, judged)
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseUndoing, v1alpha1.PhaseComplete} {
		w.pass(time.Second)
		w.roll()
		if w.last.Phase != phase {
			t.Fatalf("the phase is %s, want %s", w.last.Phase, phase)
		}
	}
	w.templateIs(1, 4)
	for range 3 {
		w.remember()
		w.restored = true
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseFailed, "")
		w.reverts(rollout.NoRevision)
		w.say("Failed", "Revision agent-v2 was undone, and another user has changed the template to it again. Change the template, or create a RolloutApproval with the decision Retry.")
	}
	if w.last.Failure.Action != v1alpha1.FailurePause || w.failed[1].Undo || w.failed[1].Number != 4 {
		t.Errorf("the failure is %+v, the mark %+v", w.last.Failure, w.failed[1])
	}
	w.approve("again", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.templateIs(0, 5)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseUndoing, "")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseComplete, "")
	if w.last.RejectedRevision != "" { // a user has changed the template back
		t.Errorf("the status is %+v", w.last)
	}
	w.change("v3")
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
}

// Another revision after an undo is a rollout like any other, and forgets the one that was undone.
func TestAFixAfterAnUndoByTheTemplate(t *testing.T) {
	w := changedBack(t, judged)
	w.pass(time.Second)
	w.roll()
	w.change("v3")
	w.pass(time.Second)
	if w.last.Phase != v1alpha1.PhaseRolling || w.last.RejectedRevision != "" || w.last.Failure != nil || len(w.last.Blocking) > 0 && w.last.Blocking[0].Reason == "Undone" {
		t.Errorf("the status is %+v", w.last)
	}
}

// While another field manager may write the template again, an undo is a pause that names it; when none does any more, the template is changed.
func TestTemplateOfOthers(t *testing.T) {
	w := alongside(t, judged)
	w.template.Owners = []string{"argocd-controller", "helm"}
	for range 2 {
		w.remember()
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseFailed, "canary")
		w.reverts(rollout.NoRevision)
		w.say("UndoNotPossible", "argocd-controller, helm may write the template again")
	}
	w.template.Owners = nil
	w.pass(time.Second)
	w.remember()
	w.pass(time.Second)
	w.reverts(0)
}

// Nothing is changed while the policy is suspended, or where the stored status speaks of another committed revision.
func TestTemplateThatMustNotBeChanged(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"suspended":             func(w *world) { w.policies = []*policy.Policy{read(w.t, judged+"suspend: true\n")} },
		"nothing stored":        func(w *world) { w.stored = nil },
		"another template":      func(w *world) { w.stored.CommittedDigest = "other" },
		"another committed one": func(w *world) { w.stored.CommittedRevision = "agent-v0" },
		"another rollout of it": func(w *world) { w.stored.TargetNumber = 1 },
		"no failure is stored":  func(w *world) { w.stored.RejectedRevision = "" },
		"another phase":         func(w *world) { w.stored.Phase = v1alpha1.PhaseFailed },
	} {
		t.Run(name, func(t *testing.T) {
			w := alongside(t, judged)
			w.pass(time.Second)
			w.remember()
			change(w)
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseUndoing, "canary")
			w.reverts(rollout.NoRevision)
		})
	}
}

// A program that only shows decisions comes to the same, and asks for no change of the template.
func TestUndoThatIsShown(t *testing.T) {
	w := alongside(t, judged)
	w.pass(time.Second)
	w.stored = nil
	w.template, w.restored = policy.Reported(w.last, nil), true
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseUndoing, "canary")
	w.reverts(rollout.NoRevision)
	w.last.Blocking = []v1alpha1.Blocking{{Reason: "UndoRefused", Message: "forbidden"}}
	w.template, w.restored = policy.Reported(w.last, nil), true
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.reverts(rollout.NoRevision)
	if got := policy.Reported(nil, []string{"helm"}); len(got.Owners) != 1 || got.Refused != "" {
		t.Errorf("%+v", got)
	}
}

// A change that is refused is reported once, and tried again; then the undo goes on.
func TestTemplateThatCannotBeChanged(t *testing.T) {
	w := alongside(t, judged)
	w.pass(time.Second)
	w.remember()
	w.pass(time.Second)
	w.reverts(0)
	w.template.Refused, w.template.RetryAt = "daemonsets.apps is forbidden.", w.s.Now.Add(policy.RefusedPause)
	before := len(w.events)
	w.pass(time.Second)
	w.reverts(rollout.NoRevision)
	if w.out.Wake != w.template.RetryAt {
		t.Errorf("the next look is at %v, want %v", w.out.Wake, w.template.RetryAt)
	}
	w.remember()
	for range 3 {
		w.pass(time.Minute)
		w.want("", v1alpha1.PhaseFailed, "canary")
		w.reverts(0)
		w.say("UndoRefused", "daemonsets.apps is forbidden. Change the template, or let Everynode change it.")
		w.remember()
	}
	if got := strings.Join(w.events[before:], " "); got != policy.ReasonRolloutFailed {
		t.Errorf("the events are %s", got)
	}
	if got, want := w.messages[before], "The template cannot be changed back to the committed revision: daemonsets.apps is forbidden."; !strings.Contains(got, want) {
		t.Errorf("the event %q lacks %q", got, want)
	}
	if got, want := w.messages[before-1], "Revision agent-v2 has failed: its undo must change the template back to the committed revision agent-v1, before nodes return to it."; !strings.HasPrefix(got, want) {
		t.Errorf("the event is %q, want %q", got, want)
	}
	w.templateIs(0, 3)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseUndoing, "")
	w.say("Undone", "Wave canary failed")
}

// Windows hold the return of nodes, unless the policy ignores them, and an undo that fails stops.
func TestUndoByTheTemplateWithinItsLimits(t *testing.T) {
	spec := judged + "freezes: [{from: \"2027-01-15T08:00:05Z\", to: \"2027-01-16T08:00:00Z\"}]\nundo: {maxUnavailable: 2"
	w := changedBack(t, spec+"}\n")
	w.pass(10 * time.Second)
	w.want("", v1alpha1.PhaseUndoing, "")
	w.say("Window", "ignoreWindows")
	w.policies = []*policy.Policy{read(t, spec+", ignoreWindows: true}\n")}
	w.pass(time.Second)
	w.want("ab", v1alpha1.PhaseUndoing, "")
	w.fails("a", pulls)
	w.fails("b", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "")
	w.say("UndoFailed", "on 2 nodes the committed revision does not work either")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "")
	w.put("a", 0, true)
	w.put("b", 0, true)
	w.pass(time.Second)
	w.want("c", v1alpha1.PhaseUndoing, "")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseComplete, "")
}

// A status that another client has edited, or that an older definition has cut, may have lost why the revision was undone.
func TestAStatusWithoutTheReasonOfAnUndo(t *testing.T) {
	w := changedBack(t, judged)
	w.pass(time.Second)
	w.last, w.restored = w.last.DeepCopy(), true
	w.last.Blocking, w.last.Failure = nil, nil
	w.pass(time.Second)
	w.say("Undone", "Revision agent-v2 was undone, and the template changed back to the committed revision.")
}
