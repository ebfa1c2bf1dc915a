// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// TestANodeThatIsTaintedBecauseItWentDown: Kubernetes taints a node that is not ready, so that most sets need no pod there any more. The node stays in its wave all the same, because the
// revision may be the reason.
func TestANodeThatIsTaintedBecauseItWentDown(t *testing.T) {
	goesDown := func(t *testing.T, spec string) *world {
		t.Helper()
		w := newWorld(t, spec)
		w.pass(0)
		w.want("ab", v1alpha1.PhaseRolling, "canary")
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseSoaking, "canary")
		w.pass(time.Second)
		a := w.node("a")
		a.Ready, a.Since, a.Fit = false, w.s.Now, rollout.MayStay
		a.Pods[0].Ready, a.Pods[0].ReadySince = false, w.s.Now
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseRolling, "canary")
		if c := w.last.Waves[0]; c.Nodes != 2 || c.Available != 1 || c.SoakRestarts != 1 || c.SoakRestartedBy != "a" {
			t.Errorf("%+v", c)
		}
		if got, want := w.messages[len(w.messages)-1], "The wave canary of revision agent-v2 is not available on all nodes any more (node a): its soak starts again."; got != want {
			t.Errorf("the event is %q, want %q", got, want)
		}
		return w
	}
	t.Run("and comes back", func(t *testing.T) {
		w := goesDown(t, "waves: [{name: canary, nodes: {count: 2}, soak: 1m}]\nunreachableAfter: 10m")
		w.pass(5 * time.Minute)
		w.want("", v1alpha1.PhaseRolling, "canary")
		a := w.node("a")
		a.Ready, a.Since, a.Fit = true, w.s.Now, rollout.MustRun
		w.put("a", 1, true)
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseSoaking, "canary")
		w.pass(time.Minute)
		w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
	})
	t.Run("and is left out", func(t *testing.T) {
		w := goesDown(t, "waves: [{name: canary, nodes: {count: 2}, soak: 1m}]\nunreachableAfter: 10m")
		w.pass(10 * time.Minute)
		w.want("", v1alpha1.PhaseSoaking, "canary")
		w.pass(time.Minute)
		w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
	})
	t.Run("and fails the revision", func(t *testing.T) {
		w := goesDown(t, "waves: [{name: canary, nodes: {count: 2}, soak: 1m}]\nfailure: {nodeDeadline: 1m, action: Pause}")
		w.pass(2 * time.Minute)
		w.want("", v1alpha1.PhaseFailed, "canary")
	})
}

// taint lets no node need a pod, or each again.
func taint(w *world, fit rollout.Fit) {
	for i := range w.s.Nodes {
		w.s.Nodes[i].Fit = fit
	}
}

// TestAllNodesAreTainted: while no node needs a pod, but all keep old ones, no wave that takes a number of nodes passes, and the revision is not committed: otherwise all nodes would start at
// once.
func TestAllNodesAreTainted(t *testing.T) {
	stalls := func(t *testing.T, w *world, wave string) {
		t.Helper()
		taint(w, rollout.MayStay)
		for range 3 {
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseStalled, wave)
			if w.out.Commit >= 0 || w.last.Blocking[0].Reason != policy.NoNodeEligible {
				t.Errorf("commit %d, %+v", w.out.Commit, w.last.Blocking)
			}
		}
	}
	for waves, first := range map[string]string{
		"waves: [{name: canary, nodes: {count: 1}, soak: 1h}]":             "a",
		"waves: [{name: canary, nodes: {percent: 10}, soak: 1h}]":          "a",
		"waves: [{name: canary, growth: {start: 1, factor: 2}, soak: 1h}]": "a",
	} {
		t.Run("before "+waves, func(t *testing.T) {
			w := newWorld(t, waves)
			stalls(t, w, "canary")
			taint(w, rollout.MustRun)
			w.pass(time.Second)
			w.want(first, v1alpha1.PhaseRolling, "canary")
		})
	}
	t.Run("after a wave that has passed", func(t *testing.T) {
		w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}}, {name: half, nodes: {percent: 50}, soak: 1h}]")
		w.pass(0)
		w.want("a", v1alpha1.PhaseRolling, "canary")
		w.pass(time.Second)
		if w.out.Status.Wave != "half" {
			t.Fatal(w.out.Status.Wave)
		}
		stalls(t, w, "half")
		taint(w, rollout.MustRun)
		w.pass(time.Second)
		w.want("bcde", v1alpha1.PhaseRolling, "half")
	})
	t.Run("and their pods are deleted", func(t *testing.T) {
		w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 1h}]")
		stalls(t, w, "canary")
		for i := range w.s.Nodes {
			w.s.Nodes[i].Pods = nil
		}
		w.pass(time.Second)
		if w.out.Commit != 1 {
			t.Errorf("commit %d, %+v", w.out.Commit, w.last.Blocking)
		}
	})
}
