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

// failOn lets the revision fail on a node that has got it.
func (w *world) failOn(node string) {
	p := &w.node(node).Pods[0]
	if p.Revision != 1 {
		w.t.Fatalf("node %s has no pod of the revision", node)
	}
	p.Ready, p.Restarts = false, 9
}

// TestFailedNodesThatAreGone: a node on which the revision has failed counts also when it has left its wave, whatever took it away, and under another manager. Before the change, a canary of four passed in which three
// nodes had failed, one after the other, and one may fail.
func TestFailedNodesThatAreGone(t *testing.T) {
	for name, leave := range map[string]func(w *world){
		"it is deleted":        func(w *world) { w.vanish("a") },
		"it gets a taint":      func(w *world) { w.node("a").Fit = rollout.MayStay },
		"it gets a label":      func(w *world) { w.node("a").Fit, w.node("a").Pods = rollout.MustLeave, nil },
		"its pods still exist": func(w *world) { w.node("a").Gone, w.node("a").Fit = true, rollout.MustLeave },
	} {
		for _, waves := range []string{"{name: canary, nodes: {count: 4}}", "{name: canary}"} {
			t.Run(name+" "+waves, func(t *testing.T) {
				w := newWorld(t, "{waves: ["+waves+"], failure: {maxRestarts: 3, maxFailedNodes: 1, action: Undo}}")
				w.s.Set.MaxUnavailable = rollout.Quantity{Value: 2}
				w.pass(0)
				w.want("ab", v1alpha1.PhaseRolling, "canary")
				w.failOn("a")
				w.pass(time.Second)
				if got := w.wave("canary"); got.Failed != 1 || w.last.Phase != v1alpha1.PhaseRolling {
					t.Fatal(got.Failed, w.last.Phase)
				}
				leave(w)
				w.pass(time.Second)
				w.lead()
				w.pass(time.Second)
				if got := w.wave("canary"); got.Failed != 1 || len(got.FailedNodes) != 1 || got.FailedNodes[0].Name != "a" || w.last.Phase != v1alpha1.PhaseRolling {
					t.Fatalf("%+v, %s", got, w.last.Phase)
				}
				w.failOn("b")
				w.pass(time.Second)
				if w.last.Failure == nil || !strings.HasPrefix(w.last.Failure.Message, "Wave canary failed: 2 of ") {
					t.Errorf("%s, %+v", w.last.Phase, w.wave("canary"))
				}
			})
		}
	}
}

// TestANodeThatIsBackIsJudgedAgain: a node that has left its wave and is back counts by what its pod is like now.
func TestANodeThatIsBackIsJudgedAgain(t *testing.T) {
	w := newWorld(t, "{waves: [{name: canary, nodes: {count: 2}, soak: 1h}], failure: {maxRestarts: 3, maxFailedNodes: 1, action: Undo}}")
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.failOn("a")
	w.pass(time.Second)
	w.node("a").Fit = rollout.MayStay
	w.pass(time.Second)
	if got := w.wave("canary"); got.Failed != 1 {
		t.Fatalf("%+v", got)
	}
	w.node("a").Fit = rollout.MustRun
	w.put("a", 1, true)
	w.pass(time.Second)
	if got := w.wave("canary"); got.Failed != 0 || got.Available != 2 {
		t.Errorf("%+v", got)
	}
}

// TestAPercentageCountsFailedNodesThatAreGone: one node of four may fail, also when it is gone and three are left.
func TestAPercentageCountsFailedNodesThatAreGone(t *testing.T) {
	w := newWorld(t, "{waves: [{name: canary, nodes: {count: 4}}], failure: {maxRestarts: 3, maxFailedNodes: 25%, action: Undo}}")
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 2}
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.failOn("a")
	w.pass(time.Second)
	w.vanish("a")
	w.pass(time.Second)
	if got := w.wave("canary"); got.Failed != 1 || w.last.Phase != v1alpha1.PhaseRolling {
		t.Errorf("%+v, %s", got, w.last.Phase)
	}
}

// TestManyFailedNodesThatAreGone: each failed node that has left its wave counts, also beyond those that the status describes, under another manager, and after the status was too large for etcd. Before the change, only
// ten of them counted, so a revision for which 12 nodes may fail could destroy one node after the other.
func TestManyFailedNodesThatAreGone(t *testing.T) {
	w := newWorld(t, "{waves: [{name: canary, soak: 1h}], failure: {maxRestarts: 3, maxFailedNodes: 12, action: Undo}}")
	for _, name := range strings.Split("klmnopqrst", "") {
		w.join(name, 0, 0)
	}
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 20}
	w.pass(0)
	w.want("abcdefghijklmnopqrst", v1alpha1.PhaseRolling, "canary")
	for _, name := range strings.Split("abcdefghijkl", "") {
		w.failOn(name)
	}
	w.pass(time.Second)
	if got := w.wave("canary"); got.Failed != 12 || len(got.FailedNodes) != 12 || got.FailedNodes[11].Message != "" || got.FailedNodes[11].Reason == "" || w.last.Failure != nil {
		t.Fatalf("%+v, %+v", got, w.last.Failure)
	}
	for k := range w.last.Waves {
		for j := range w.last.Waves[k].FailedNodes {
			w.last.Waves[k].FailedNodes[j].Message = strings.Repeat("x", 1<<18)
		}
	}
	w.last = &policy.Bounded([]v1alpha1.SetStatus{*w.last})[0]
	for _, name := range strings.Split("abcdefghijkl", "") {
		w.vanish(name)
	}
	w.lead()
	w.pass(time.Second)
	if got := w.wave("canary"); got.Failed != 12 || w.last.Failure != nil {
		t.Fatalf("%+v, %+v", got, w.last.Failure)
	}
	w.failOn("m")
	w.pass(time.Second)
	if w.last.Failure == nil || !strings.HasPrefix(w.last.Failure.Message, "Wave canary failed: 13 of ") {
		t.Errorf("%s, %+v", w.last.Phase, w.wave("canary"))
	}
}
