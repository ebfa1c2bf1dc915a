// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

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
