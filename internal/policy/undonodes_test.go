// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// allUndone is a world in which all nodes have the new revision, and return one by one because a user has asked for that. The first one has no available pod yet.
func allUndone(t *testing.T) (w *world, first string) {
	t.Helper()
	w = newWorld(t, `
waves: [{name: all, nodes: {percent: 100}, soak: 1h}]
failure: {nodeDeadline: 5m, maxFailedNodes: 0, action: Undo}
undo: {maxUnavailable: 1}
`)
	w.pass(0)
	w.roll()
	w.pass(time.Second)
	w.approve("bad", "", "v2", v1alpha1.UndoRollout)
	w.pass(time.Second)
	w.pass(time.Second)
	if first = w.roll(); len(first) != 1 {
		t.Fatalf("%q return at once", first)
	}
	w.fails(first, hangs)
	w.pass(time.Second)
	return w, first
}

// A node that dies while it returns keeps no other node on the failed revision: it says nothing about the committed one, and does not use up the limit of the undo.
func TestANodeThatDiesDuringAnUndo(t *testing.T) {
	w, dead := allUndone(t)
	w.node(dead).Ready, w.node(dead).Since = false, w.s.Now
	for range 8 {
		w.pass(time.Minute)
		if w.roll(); w.last.Phase != v1alpha1.PhaseUndoing {
			t.Fatalf("phase %s: %+v", w.last.Phase, w.last.Blocking)
		}
	}
	w.node(dead).Ready = true
	w.pass(time.Minute) // its pod needs some time; what passed before does not count
	if w.roll(); w.last.Phase != v1alpha1.PhaseUndoing {
		t.Fatalf("phase %s: %+v", w.last.Phase, w.last.Blocking)
	}
	w.put(dead, 0, true)
	for range 2 {
		w.pass(time.Minute)
		w.roll()
	}
	w.want("", v1alpha1.PhaseFailed, "")
	if rest := w.have(1); rest != "" {
		t.Errorf("%s still have the failed revision: %s", rest, w.verdicts())
	}
	w.say("Failed", "The nodes have returned to the committed revision.")
}

// A pod of the committed revision that fails on a node that is ready stops the undo. The phase and the reason say that, and it goes on when the pod works.
func TestAnUndoThatFails(t *testing.T) {
	w, first := allUndone(t)
	before := len(w.events)
	for range 2 {
		w.pass(5 * time.Minute)
		w.want("", v1alpha1.PhaseFailed, "")
		w.say("UndoFailed", "on 1 node the committed revision does not work either, and 0 may fail. Nodes: "+first+" (NotAvailable).")
	}
	if w.last.Blocking[0].Reason != "UndoFailed" {
		t.Errorf("the first reason is %s", w.last.Blocking[0].Reason)
	}
	w.put(first, 0, true)
	for range 12 {
		w.pass(time.Second)
		w.roll()
	}
	w.want("", v1alpha1.PhaseFailed, "")
	w.say("Failed", "The nodes have returned to the committed revision.")
	if got := strings.Join(w.events[before:], " "); got != "RolloutUndoFailed RolloutUndone RolloutUndoEnded" {
		t.Errorf("events %s", got)
	}
}

// An undo that has stopped ends where users replace the pods themselves.
func TestAnUndoThatFailsIsEndedByUsers(t *testing.T) {
	w, _ := allUndone(t)
	w.pass(5 * time.Minute)
	w.want("", v1alpha1.PhaseFailed, "")
	before := len(w.events)
	for _, name := range strings.Split("abcdefghij", "") {
		w.put(name, 0, true)
	}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "")
	if got := w.events[before:]; !slices.Equal(got, []string{"RolloutUndoEnded"}) {
		t.Errorf("events %v", got)
	}
}

// A pod that has failed counts no longer when its node dies.
func TestAnUndoThatFailsGoesOnWithoutADeadNode(t *testing.T) {
	w, first := allUndone(t)
	w.pass(5 * time.Minute)
	w.want("", v1alpha1.PhaseFailed, "")
	w.node(first).Ready, w.node(first).Since = false, w.s.Now
	w.pass(time.Second)
	if w.roll(); w.last.Phase != v1alpha1.PhaseUndoing || len(w.have(0)) != 2 {
		t.Errorf("phase %s, and %q have returned: %+v", w.last.Phase, w.have(0), w.last.Blocking)
	}
}

// A retry is a way on after an undo that has failed: the revision is rolled out again.
func TestRetryAfterAnUndoThatFails(t *testing.T) {
	w, _ := allUndone(t)
	w.pass(5 * time.Minute)
	w.want("", v1alpha1.PhaseFailed, "")
	w.approve("retry", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "")
	for range 3 {
		w.pass(time.Second)
		w.roll()
	}
	if rest := w.have(0); rest != "" || w.last.Phase != v1alpha1.PhaseSoaking {
		t.Errorf("phase %s, and %q have the other revision", w.last.Phase, rest)
	}
}

// With AdvancedRollingUpdate, the rule of the dialect says which nodes that are not ready use up the limit: those that may have gone down because of the update.
func TestTheLimitOfAnUndoWhereUnreachableNodesAreSkipped(t *testing.T) {
	for after, want := range map[time.Duration]int{0: 2, 5 * time.Minute: 1} {
		w, dead := allUndone(t)
		w.s.Set.Unreachable = rollout.Unreachable{Skip: true, AttributionWindow: time.Minute}
		n := w.node(dead)
		n.Ready, n.Since, n.Pods[0].ReadySince = false, w.s.Now.Add(after), w.s.Now.Add(after)
		w.pass(after + time.Second)
		if limit := w.out.MaxUnavailable; limit == nil || limit.Value != want {
			t.Errorf("of a node that goes down %s after its update: the limit is %+v", after, limit)
		}
	}
}

// TestANodeThatBreaksDuringAnUndoThatHasNotTouchedIt: while nodes return, the pod breaks on a node that has had the committed revision all the time. Only nodes that have returned show that the
// committed revision does not work, so the undo goes on, whatever the dialect, and also if that node was rebooted before.
func TestANodeThatBreaksDuringAnUndoThatHasNotTouchedIt(t *testing.T) {
	for name, c := range map[string]struct{ inPlace, reboots bool }{"recreated": {}, "in place": {inPlace: true}, "recreated, after a reboot": {reboots: true}} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, `
waves: [{name: canary, nodes: {count: 3}, soak: 1m}]
failure: {nodeDeadline: 5m, waitingReasons: [ImagePullBackOff], action: Undo}
undo: {maxUnavailable: 1}
`)
			w.s.Set.InPlace = c.inPlace
			w.s.Revisions[0].Created = w.s.Now.Add(-48 * time.Hour)
			w.node("j").Pods[0].Created = w.s.Now.Add(-24 * time.Hour)
			w.fails("a", pulls)
			w.pass(time.Second)
			w.pass(time.Second)
			if w.last.Phase != v1alpha1.PhaseUndoing {
				t.Fatalf("phase %s: %+v", w.last.Phase, w.last.Blocking)
			}
			if c.reboots {
				w.node("j").Ready, w.node("j").Since = false, w.s.Now
				w.fails("j", hangs)
				w.pass(time.Minute)
				w.node("j").Ready, w.node("j").Since = true, w.s.Now
			}
			w.fails("j", hangs)
			for range 8 {
				w.pass(time.Minute)
				if w.last.Phase != v1alpha1.PhaseUndoing {
					t.Fatalf("phase %s: %+v", w.last.Phase, w.last.Blocking)
				}
			}
			for range 3 {
				w.roll()
				w.pass(time.Second)
			}
			if nodes := w.have(1); nodes != "" {
				t.Errorf("nodes %s still have the revision that has failed: %+v", nodes, w.last.Blocking)
			}
		})
	}
}
