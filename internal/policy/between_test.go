// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// openFor is a window that opens at noon, once a day.
func openFor(d time.Duration) string {
	at := time.Unix(0, int64(noon)).UTC()
	return fmt.Sprintf("windows: [{schedule: '%d %d * * *', duration: %s}]", at.Minute(), at.Hour(), d)
}

// condition is a condition of the policy after the last decision.
func (w *world) condition(kind string) *metav1.Condition {
	return meta.FindStatusCondition(w.policies[0].Conditions(nil, []v1alpha1.SetStatus{*w.out.Status}, nil, metav1.NewTime(time.Unix(1, 0))), kind)
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

// TestReadyBetweenWaves: with WaveHealthy, a rollout that waits for a window after a wave that is complete is ready; one whose first wave has not begun, or in the
// middle of a wave, or with a wave that is not available any more, is not.
func TestReadyBetweenWaves(t *testing.T) {
	ready := func(w *world, want metav1.ConditionStatus, what string) {
		t.Helper()
		if c := w.condition(v1alpha1.ConditionReady); w.out.Status.Phase != v1alpha1.PhaseWaitingForWindow || c.Status != want {
			t.Errorf("%s: phase %s, ready %s (%s), want %s", what, w.out.Status.Phase, c.Status, c.Message, want)
		}
	}
	spec := "{readyWhen: WaveHealthy, waves: [{name: canary, nodes: {count: 2}}, {name: rest}], " + openFor(10*time.Minute) + "}"
	w := newWorld(t, spec)
	w.pass(time.Hour)
	ready(w, metav1.ConditionFalse, "before the first wave")
	w = newWorld(t, spec)
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.put("b", 1, false)
	w.pass(time.Hour)
	ready(w, metav1.ConditionFalse, "in the middle of a wave")
	w.put("b", 1, true)
	w.pass(time.Second)
	ready(w, metav1.ConditionTrue, "after a wave")
	w.put("b", 1, false)
	w.pass(time.Second)
	ready(w, metav1.ConditionFalse, "after a wave with a pod that is not available any more")
}

// TestWavesWithoutNodes are named, because nothing is observed there.
func TestWavesWithoutNodes(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}}, {name: tenth, nodes: {percent: 10}, soak: 30m}, {name: rest}]")
	w.pass(0)
	if got := w.condition(v1alpha1.ConditionReconciling).Message; got != "agent: Rolling in wave canary; agent: waves without nodes: tenth" {
		t.Error(got)
	}
	w = newWorld(t, "waves: [{name: canary, nodes: {count: 1}}, {name: fifth, nodes: {percent: 20}}, {name: rest}]")
	w.pass(0)
	if got := w.condition(v1alpha1.ConditionReconciling).Message; got != "agent: Rolling in wave canary" {
		t.Error(got)
	}
}

// TestRemindersOfAnOlderDefinition: one that allowed less than a second between two reminders keeps no manager busy.
func TestRemindersOfAnOlderDefinition(t *testing.T) {
	w := canary(t, "waves: [{name: canary, nodes: {count: 3}, after: [{type: Approval, remindAfter: 1ms}]}]")
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	w.pass(500 * time.Millisecond)
	if wait := w.out.Wake.Sub(w.s.Now); wait < 400*time.Millisecond {
		t.Errorf("the next decision is in %s", wait)
	}
}

// TestPaceAfterACrash: a manager that starts knows no start but those that pods show, and not more exactly than they do.
func TestPaceAfterACrash(t *testing.T) {
	inPlace := func(w *world, phase rollout.InPlace, revision int) {
		w.s.Set.InPlace, w.s.Revisions[0].Change.InPlace = true, true
		p := &w.node("a").Pods[0]
		p.InPlace, p.Revision = phase, revision
	}
	for name, start := range map[string]func(w *world){
		"created":  func(w *world) { w.put("a", 1, true) },
		"deleted":  func(w *world) { w.node("a").Pods[0].Deleting, w.node("a").Pods[0].DeletedAt = true, w.s.Now },
		"gone":     func(w *world) { w.node("a").Pods = nil },
		"prepared": func(w *world) { w.node("a").Pods[0].Hook = rollout.HookWaiting },
		"marked":   func(w *world) { inPlace(w, rollout.InPlaceMarked, 0) },
		"patched":  func(w *world) { inPlace(w, rollout.InPlacePatched, 1) },
		"gone, and the template is an old one": func(w *world) {
			w.s.Revisions[1].Created = w.node("a").Joined.Add(-time.Hour)
			w.node("a").Pods = nil
		},
	} {
		w := newWorld(t, "pace: {minTimeBetween: 10s}")
		w.s.Set.MaxUnavailable.Value = 2
		for i := range w.s.Nodes {
			n := &w.s.Nodes[i]
			n.Joined, n.Pods[0].Created, n.Pods[0].ReadySince = noon.Add(-time.Hour), noon.Add(-time.Hour), noon.Add(-time.Hour)
		}
		w.pass(0)
		start(w) // up to a second later than the pod shows
		w.lead()
		w.pass(time.Second)
		w.pass(9 * time.Second)
		second := func(a rollout.Action) bool { return a.Node == 1 }
		if got := w.plan().Actions; slices.ContainsFunc(got, second) {
			t.Errorf("%s: before ten seconds: %+v", name, got)
		}
		w.pass(time.Second)
		if got := w.plan().Actions; !slices.ContainsFunc(got, second) {
			t.Errorf("%s: after ten seconds: %+v", name, got)
		}
	}
}

// TestPaceOverManyLeaders: a pod is prepared all the time, which shows no time, and managers follow each other faster than updates may start. The next one starts at some time.
func TestPaceOverManyLeaders(t *testing.T) {
	w := newWorld(t, "pace: {minTimeBetween: 10m}")
	w.s.Set.MaxUnavailable.Value = 5
	w.pass(0)
	w.node("a").Pods[0].Hook = rollout.HookWaiting
	w.last.LastStart = policy.Moment(w.s.Now)
	for range 10 {
		w.lead()
		w.pass(time.Second)
		w.pass(5 * time.Minute)
		if slices.ContainsFunc(w.plan().Actions, func(a rollout.Action) bool { return a.Node != 0 }) {
			return
		}
	}
	t.Errorf("nothing has started since %s: %s", w.last.LastStart.UTC(), w.verdicts())
}
