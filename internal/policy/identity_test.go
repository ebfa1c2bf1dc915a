// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// renumbered are the ways in which the ControllerRevision of an unchanged template gets another number or name.
func renumbered() map[string]func(w *world) {
	return map[string]func(w *world){
		"a higher number": func(w *world) { w.s.Revisions[1].Number = 1001 },
		"a higher number, and another edit": func(w *world) {
			w.s.Revisions[1].Number = 1001
			w.generation++
		},
		"two edits later": func(w *world) {
			w.s.Revisions[1].Number = 1001
			w.pass(time.Second)
			w.generation += 2
		},
		"a status of an earlier version": func(w *world) {
			w.s.Revisions[1].Number = 1001
			w.last.UID, w.last.ObservedGeneration, w.restored = "", 0, true
		},
		"a set of a backup": func(w *world) {
			w.s.Revisions[1].Number = 1001
			w.last.UID, w.restored = "deleted", true
		},
		"another manager": func(w *world) {
			w.s.Revisions[1].Number = 1001
			w.pass(time.Second)
			w.restored = true
		},
		"a copy": func(w *world) {
			w.s.Revisions = append(w.s.Revisions, rollout.Revision{Name: "copy", Number: 3, Created: w.s.Now})
			w.marks, w.same = append(w.marks, 0), map[int]int{1: 2}
			w.s.Set.Update, w.described = 2, "copy"
		},
		"a copy, and the original deleted": func(w *world) {
			w.s.Revisions[1].Name, w.s.Revisions[1].Number = "copy", 3
			w.described = "copy"
		},
	}
}

// A failure, a rejection and an undo count until the template changes.
func TestADecisionOutlivesTheNumberOfItsRevision(t *testing.T) {
	for name, change := range renumbered() {
		for _, decision := range []v1alpha1.Decision{v1alpha1.Reject, v1alpha1.UndoRollout} {
			w := newWorld(t, judgedStrictly())
			w.approve("no", "", "v2", decision)
			for range 3 {
				w.pass(time.Second)
				w.roll()
			}
			if got := w.have(1); got != "" {
				t.Fatalf("%s: %q", decision, got)
			}
			phase := w.last.Phase
			change(w)
			for range 3 {
				w.pass(time.Second)
				if got := w.roll(); got != "" || w.last.Phase != phase {
					t.Errorf("%s after %s: %q get the revision, %s", name, decision, got, w.last.Phase)
				}
			}
		}
	}
}

// What was rejected is rolled out if a user asks for the template again: the last decision was about another template, or the ControllerRevision got a higher
// number than that of a template that no decision was about.
func TestATemplateThatReturnsIsAnotherRollout(t *testing.T) {
	for name, back := range map[string]func(w *world){
		"after a decision": func(w *world) {
			w.change("v3")
			w.pass(time.Second)
			w.s.Set.Update, w.s.Revisions[1].Number = 1, 8
		},
		"without a decision": func(w *world) {
			w.change("v3")
			w.s.Set.Update, w.s.Revisions[1].Number = 1, 8
			w.generation += 2
		},
		"with a stranger's number": func(w *world) {
			w.s.Revisions[1].Number = 1001
			w.pass(time.Second)
			w.change("v3")
			w.s.Revisions[2].Number = 1002
			w.pass(time.Second)
			w.s.Set.Update, w.s.Revisions[1].Number = 1, 1003
		},
	} {
		w := newWorld(t, judgedStrictly())
		w.approve("no", "", "v2", v1alpha1.Reject)
		w.pass(time.Second)
		back(w)
		w.pass(time.Second)
		if got := w.roll(); got == "" || w.last.TargetNumber != w.s.Revisions[1].Number || w.last.Attempt != 1 {
			t.Errorf("%s: %q, %+v", name, got, w.last)
		}
	}
}

// A stranger has raised the number of the failed revision. Then, while no manager looks, the set is edited twice, but not its template: the status and the mark show the failure.
func TestAFailureOutlivesEditsOfTheSet(t *testing.T) {
	for name, c := range map[string]struct {
		number  int64
		back    bool // the template was another one, and returns
		forgets bool
	}{
		"number kept":                 {number: 2},
		"number raised":               {number: 9},
		"number raised, and returned": {number: 9, back: true, forgets: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := undoing(t)
			steps := func(step func()) {
				for range 3 {
					w.pass(time.Second)
					step()
				}
			}
			steps(func() { w.roll() })
			w.s.Revisions[1].Number = c.number
			steps(func() { w.roll() })
			w.want("", v1alpha1.PhaseFailed, "canary")
			if c.back {
				w.change("v3")
				w.s.Revisions[2].Number = 10
				w.s.Set.Update, w.s.Revisions[1].Number = 1, 11
			}
			w.generation += 2
			w.lead()
			got := ""
			steps(func() { got += w.roll() })
			if again := got != ""; again != c.forgets {
				t.Errorf("%q get the failed revision again: %s, %+v", got, w.last.Phase, w.failed[1])
			}
		})
	}
}

// A status that does not show whether the template has changed since releases nothing: the waves begin again.
func TestProgressOfAnUnknownRolloutDoesNotCount(t *testing.T) {
	for name, change := range renumbered() {
		w := newWorld(t, judgedStrictly())
		w.pass(0)
		w.last.Waves[0].Phase = v1alpha1.WavePassed
		change(w)
		unknown := w.restored && name != "another manager"
		w.pass(time.Second)
		if got := w.last.Waves[0].Phase == v1alpha1.WavePassed; got == unknown {
			t.Errorf("%s: the first wave is %s", name, w.last.Waves[0].Phase)
		}
	}
}

// If the status is lost, the mark of the revision that has failed also holds a copy of it.
func TestAMarkHoldsACopyIfTheStatusIsLost(t *testing.T) {
	w := newWorld(t, judgedStrictly())
	w.approve("no", "", "v2", v1alpha1.UndoRollout)
	w.pass(time.Second)
	w.approvals = nil
	renumbered()["a copy"](w)
	w.last, w.restored = nil, true
	for range 3 {
		w.pass(time.Second)
		if got := w.roll(); got != "" || w.last.Phase != v1alpha1.PhaseFailed {
			t.Errorf("%q, %s", got, w.last.Phase)
		}
	}
}

// A rollout that is decided about before its revision has its new number has that number from the start, so that approvals of the earlier rollout do not count.
func TestTheNumberOfARolloutIsTheNextOne(t *testing.T) {
	w := newWorld(t, judgedStrictly())
	w.pass(time.Second)
	w.change("v3")
	w.pass(time.Second)
	w.s.Set.Update = 1
	w.pass(time.Second)
	if got := w.last.TargetNumber; got != 8 {
		t.Errorf("rollout %d", got)
	}
	w.s.Revisions[1].Number = 8
	w.pass(time.Second)
	if got := w.last.TargetNumber; got != 8 {
		t.Errorf("rollout %d", got)
	}
}

// An approval names a revision. If its ControllerRevision is gone, the approval releases no node to a copy of it.
func TestAnApprovalReleasesNoCopyOfARevisionThatIsGone(t *testing.T) {
	w := canary(t, "waves: [{name: canary, nodes: {count: 3}, after: [{type: Approval}]}, {name: more, nodes: {count: 3}, after: [{type: Approval}]}]")
	w.approve("early", "more", "v2", v1alpha1.Approve)
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.pass(time.Second)
	w.want("def", v1alpha1.PhaseRolling, "more")
	renumbered()["a copy, and the original deleted"](w)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseWaitingForApproval, "more")
}
