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

// edit changes the pod of a node in place, which keeps its restarts and adds one.
func (w *world) edit(name string, revision int, ready bool) {
	p := &w.node(name).Pods[0]
	p.Revision, p.Ready, p.ReadySince, p.Waiting = revision, ready, w.s.Now, rollout.WaitingNone
	p.Restarts++
}

// inPlace begins a rollout in place of pods that have been there for a day.
func inPlace(t *testing.T, spec string) *world {
	t.Helper()
	w := newWorld(t, spec)
	w.s.Set.InPlace = true
	w.s.Revisions[0].Created = w.s.Now.Add(-48 * time.Hour)
	for i := range w.s.Nodes {
		w.s.Nodes[i].Pods[0].Created = w.s.Now.Add(-24 * time.Hour)
	}
	w.pass(0)
	return w
}

// TestAnUndoDoesNotCountEarlierRestarts: a pod that is changed back in place keeps its restarts by the version that has failed. They do not say that the committed one does not
// work either, also for a manager that has not seen them; those that follow do.
func TestAnUndoDoesNotCountEarlierRestarts(t *testing.T) {
	for _, c := range []struct{ next, recreated bool }{{false, false}, {true, false}, {true, true}} {
		w := inPlace(t, judged)
		w.pass(time.Second)
		for _, name := range []string{"a", "b", "c"} {
			w.edit(name, 1, false)
			if c.recreated {
				w.node(name).Pods[0].Created = w.s.Now
			}
		}
		w.pass(time.Second)
		for _, name := range []string{"a", "b", "c"} {
			w.node(name).Pods[0].Restarts += 9
		}
		w.pass(time.Second)
		w.pass(time.Second)
		if w.last.Phase != v1alpha1.PhaseUndoing {
			t.Fatalf("phase %s: %+v", w.last.Phase, w.last.Blocking)
		}
		for _, name := range []string{"b", "c"} {
			w.edit(name, 0, true)
		}
		if c.next {
			w.lead()
		}
		w.pass(time.Second)
		w.pass(time.Second)
		if policy.UndoStopped(w.last) {
			t.Fatalf("%+v: %+v", c, w.last.Blocking)
		}
		for _, name := range []string{"b", "c"} {
			w.node(name).Pods[0].Restarts += 4
			w.node(name).Pods[0].Ready = false
		}
		w.pass(time.Second)
		if !policy.UndoStopped(w.last) {
			t.Errorf("%+v: the undo goes on, although the committed revision does not work: %+v", c, w.last)
		}
	}
}

// TestARollbackDoesNotCountEarlierRestarts: the revision to which a user returns is older than the pods, and their restarts are those of the version in between.
func TestARollbackDoesNotCountEarlierRestarts(t *testing.T) {
	w := inPlace(t, judged)
	w.s.Revisions[1].Created = w.s.Now.Add(-72 * time.Hour)
	for _, name := range []string{"a", "b", "c"} {
		w.node(name).Pods[0].Restarts = 9
		w.edit(name, 1, true)
	}
	w.pass(time.Second)
	w.pass(time.Second)
	if w.last.Failure != nil {
		t.Errorf("the revision fails: %s", w.last.Failure.Message)
	}
}

// TestALostStatusForgivesNoRestarts: the status is lost, or restored from a backup, so that the time at which the rollout began is not known any more. The restarts of pods that
// the rollout has created count all the same.
func TestALostStatusForgivesNoRestarts(t *testing.T) {
	w := inPlace(t, judged)
	w.pass(time.Second)
	for _, name := range []string{"a", "b", "c"} {
		w.put(name, 1, true)
		w.node(name).Pods[0].Restarts = 9
	}
	w.last.StartedAt = nil
	w.lead()
	w.pass(time.Minute)
	if w.last.Failure == nil {
		t.Errorf("the revision has not failed: phase %s", w.last.Phase)
	}
}

// TestRestartsBeforeTheRolloutDoNotCount: some nodes already have the revision, and its pods work, when the rollout of a policy begins, for example because users have updated an OnDelete set
// there months ago. What these pods have been restarted before does not count; what follows does.
func TestRestartsBeforeTheRolloutDoNotCount(t *testing.T) {
	w := newWorld(t, judged)
	w.marks = []int64{0, 0}
	w.s.Revisions[1].Created = w.s.Now.Add(-91 * 24 * time.Hour)
	for _, name := range []string{"a", "b"} {
		w.put(name, 1, true)
		p := &w.node(name).Pods[0]
		p.Restarts, p.Created, p.ReadySince = 10, w.s.Now.Add(-90*24*time.Hour), w.s.Now.Add(-24*time.Hour)
	}
	w.pass(0)
	w.pass(time.Second)
	w.wantNoFailure()
	for _, name := range []string{"a", "b"} {
		w.node(name).Pods[0].Restarts += 4
	}
	w.pass(time.Second)
	if w.last.Failure == nil {
		t.Error("restarts during the rollout do not count")
	}
}

// TestEarlierRestartsDoNotStopAnUndo: pods of the committed revision on nodes that the bad revision has never reached have been restarted in the months before. That does not show that the
// committed revision does not work, so the undo goes on, also under another manager.
func TestEarlierRestartsDoNotStopAnUndo(t *testing.T) {
	for name, c := range map[string]struct{ lead, inPlace bool }{
		"the same manager": {}, "another manager": {lead: true}, "in place": {inPlace: true}, "in place, another manager": {lead: true, inPlace: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, judged)
			w.s.Set.InPlace = c.inPlace
			for _, name := range strings.Split("defghij", "") {
				p := &w.node(name).Pods[0]
				p.Restarts, p.Created, p.ReadySince = 10, w.s.Now.Add(-90*24*time.Hour), w.s.Now.Add(-24*time.Hour)
			}
			w.fails("a", pulls)
			w.fails("b", pulls)
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseFailed, "canary")
			if c.lead {
				w.lead()
			}
			w.pass(time.Second)
			if w.last.Phase != v1alpha1.PhaseUndoing {
				t.Fatalf("phase %s: %+v", w.last.Phase, w.last.Blocking)
			}
			w.want("abc", v1alpha1.PhaseUndoing, "canary")
		})
	}
}

// TestEarlierRestartsDoNotStopAnUndoNextToAnotherController: the same holds where the undo changes the template.
func TestEarlierRestartsDoNotStopAnUndoNextToAnotherController(t *testing.T) {
	w := canary(t, judged)
	w.s.Set.ExternalController, w.template = true, &policy.Template{}
	for name, created := range map[string]rollout.Time{"d": w.s.Now.Add(-90 * 24 * time.Hour), "e": w.s.Now, "f": w.s.Now} {
		w.node(name).Pods[0].Restarts, w.node(name).Pods[0].Created = 10, created
	}
	w.fails("a", pulls)
	w.fails("b", pulls)
	for range 4 {
		w.stored = w.last
		if w.pass(time.Second); w.out.Revert >= 0 {
			w.s.Set.Update = w.out.Revert
		}
	}
	for range 2 {
		if w.s.Set.Update != 0 || w.last.Phase != v1alpha1.PhaseUndoing {
			t.Errorf("phase %s: %+v", w.last.Phase, w.last.Blocking)
		}
		w.lead()
		w.pass(time.Second)
	}
}

// TestRestartsBeforeARevisionReturns: the template describes a revision again that was undone some time ago, so the ControllerRevision is older than the pods that have come with the committed
// one since. Their restarts before they are changed in place do not count.
func TestRestartsBeforeARevisionReturns(t *testing.T) {
	for name, lead := range map[string]bool{"the same manager": false, "another manager": true} {
		t.Run(name, func(t *testing.T) {
			w := inPlace(t, judgedStrictly())
			w.templateIs(0, 3)
			w.pass(time.Second)
			w.pass(72 * time.Hour)
			for i := range w.s.Nodes {
				p := &w.s.Nodes[i].Pods[0]
				p.UID, p.Created, p.ReadySince, p.Restarts = "new"+p.Name, w.s.Now.Add(-24*time.Hour), w.s.Now.Add(-time.Hour), 9
			}
			w.pass(time.Second)
			w.templateIs(1, 4)
			w.pass(time.Second)
			for _, name := range []string{"a", "b", "c"} {
				w.edit(name, 1, true)
			}
			if lead {
				w.lead()
			}
			w.pass(time.Second)
			w.pass(time.Second)
			w.wantNoFailure()
			for _, name := range []string{"a", "b", "c"} {
				w.node(name).Pods[0].Restarts += 4
			}
			w.pass(time.Second)
			if w.last.Failure == nil {
				t.Error("restarts after the change do not count")
			}
		})
	}
}
