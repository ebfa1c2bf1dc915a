// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// openFor is a window that opens at noon, once a day.
func openFor(d time.Duration) string {
	at := time.Unix(0, int64(noon)).UTC()
	return fmt.Sprintf("windows: [{schedule: '%d %d * * *', duration: %s}]", at.Minute(), at.Hour(), d)
}

// plan is the plan after the last decision.
func (w *world) plan() rollout.Plan {
	s := w.s
	w.out.Enter(&s, nil)
	return rollout.Decide(s)
}

// TestPaceWithAHook: with a preDelete hook the update of a node starts when its pod is prepared, so the next node waits from then on.
func TestPaceWithAHook(t *testing.T) {
	w := newWorld(t, "pace: {minTimeBetween: 10s}")
	for i := range w.s.Nodes {
		w.s.Nodes[i].Pods[0].Hook = rollout.HookArmed
	}
	w.pass(0)
	plan := w.plan()
	if len(plan.Actions) != 1 || plan.Actions[0].Kind != rollout.Prepare || !policy.Started(&plan) {
		t.Fatalf("started %t: %+v", policy.Started(&plan), plan.Actions)
	}
	w.node("a").Pods[0].Hook = rollout.HookWaiting
	w.last.LastStart = policy.Moment(w.s.Now)
	w.pass(time.Second)
	if plan := w.plan(); len(plan.Actions) > 0 {
		t.Errorf("a second node after a second: %+v", plan.Actions)
	}
	w.pass(9 * time.Second)
	if plan := w.plan(); len(plan.Actions) != 1 || plan.Actions[0].Node != 1 {
		t.Errorf("after ten seconds: %+v", plan.Actions)
	}
	w = newWorld(t, "pace: {minTimeBetween: 10s}")
	for i := range w.s.Nodes {
		w.s.Nodes[i].Pods[0].Hook, w.s.Nodes[i].Fit = rollout.HookArmed, rollout.MustLeave
	}
	w.pass(0)
	if plan := w.plan(); len(plan.Actions) != 10 || policy.Started(&plan) {
		t.Errorf("pods that must leave their nodes are no updates: started %t: %+v", policy.Started(&plan), plan.Actions)
	}
}

// TestAWindowThatCloses asks for a decision, also while nothing else happens, so that the status shows it.
func TestAWindowThatCloses(t *testing.T) {
	w := newWorld(t, openFor(10*time.Minute))
	w.pass(0)
	for i := range w.s.Nodes {
		w.put(w.s.Nodes[i].Name, 1, false) // and nothing more happens there
	}
	w.pass(time.Minute)
	if w.out.Status.Phase != v1alpha1.PhaseRolling || w.out.Wake.Sub(w.s.Now) != 9*time.Minute {
		t.Fatalf("in phase %s the next decision is in %s", w.out.Status.Phase, w.out.Wake.Sub(w.s.Now))
	}
	if w.pass(9 * time.Minute); w.out.Status.Phase != v1alpha1.PhaseWaitingForWindow {
		t.Errorf("the phase is %s", w.out.Status.Phase)
	}
}
