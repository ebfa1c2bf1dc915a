// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

func TestOrderAndGrowth(t *testing.T) {
	w := newWorld(t, "order: {topologyKey: zone, domains: OneAtATime}")
	for i, name := range strings.Split("abcdefghij", "") {
		w.labels[name] = map[string]string{"zone": fmt.Sprint(i % 2)}
	}
	w.pass(0)
	w.want("acegi", v1alpha1.PhaseRolling, "remaining")
	w.put("a", 1, false)
	w.pass(0)
	w.want("", v1alpha1.PhaseRolling, "remaining")
	if !strings.Contains(w.verdicts(), "b:wait-order") {
		t.Error(w.verdicts())
	}
	w.put("a", 1, true)
	w.pass(0)
	w.want("bdfhj", v1alpha1.PhaseRolling, "remaining")

	w = newWorld(t, "order: {topologyKey: zones, domains: OneAtATime}")
	w.pass(0)
	w.want("", v1alpha1.PhaseStalled, "remaining")
	if b := w.out.Status.Blocking; len(b) != 1 || b[0].Reason != "OrderLabelMissing" {
		t.Errorf("blocking %+v", b)
	}
	w.labels["c"] = map[string]string{"zones": "1"}
	w.pass(0)
	w.want("abdefghij", v1alpha1.PhaseRolling, "remaining")

	w = newWorld(t, "waves: [{name: all, nodes: {percent: 100}, growth: {start: 10%, factor: 3}}]")
	for _, step := range []string{"a", "bcd", "efghij"} {
		w.pass(0)
		w.want(step, v1alpha1.PhaseRolling, "all")
	}
}

// TestGrowthFactor: a factor that no definition allows is a problem of the policy.
func TestGrowthFactor(t *testing.T) {
	p := read(t, "waves: [{name: all, nodes: {percent: 100}, growth: {start: 2, factor: 0}}]")
	if len(p.Problems) != 1 || !strings.HasPrefix(p.Problems[0], "spec.waves[0].growth.factor: ") {
		t.Error(p.Problems)
	}
}

// TestRolloutsThatWouldStop: a policy that no rollout follows now reports where the next one would stop because of the labels of nodes.
func TestRolloutsThatWouldStop(t *testing.T) {
	for spec, want := range map[string]string{
		"waves: [{name: first, nodes: {count: 1}}, {name: edge, nodes: {selector: {matchLabels: {edge: 'true'}}}}]": "before this wave: spec.waves[1].nodes.selector selects no node",
		"order: {topologyKey: zone, domains: OneAtATime}":                                                           "before its first wave: No node of the daemon set has the label zone",
	} {
		w := newWorld(t, spec)
		w.s.Set.Update = 0
		w.pass(0)
		got := w.condition(v1alpha1.ConditionReady)
		if w.last.Phase != v1alpha1.PhaseComplete || got.Status != metav1.ConditionTrue || !strings.Contains(got.Message, "agent: The next rollout stops "+want) {
			t.Errorf("%s: phase %s, %+v", spec, w.last.Phase, got)
		}
		if got := w.condition(v1alpha1.ConditionStalled); got.Status != metav1.ConditionFalse || got.Message != "No rollout is active." {
			t.Errorf("%s: %+v", spec, got)
		}
		for name := range strings.SplitSeq("abcdefghij", "") {
			w.labels[name] = map[string]string{"edge": "true", "zone": "a"}
		}
		w.pass(time.Second)
		if len(w.last.Blocking) > 0 {
			t.Errorf("%s: with labels: %+v", spec, w.last.Blocking)
		}
	}
}

// TestTheOrderOfAnUndoIsNoOrderOfARollout: undo.order, also its default, has no effect on a rollout, which updates nodes in the order of their names.
func TestTheOrderOfAnUndoIsNoOrderOfARollout(t *testing.T) {
	for _, spec := range []string{"", "undo: {order: NewestFirst}", "pace: {maxUpgrading: 1}"} {
		w := newWorld(t, spec)
		w.s.Set.MaxUnavailable.Value = 1
		for i := range w.s.Nodes {
			w.s.Nodes[i].Pods[0].Created = noon.Add(time.Duration(i-20) * time.Minute)
		}
		w.pass(0)
		if got := w.roll(); got != "a" {
			t.Errorf("%q: %q starts first", spec, got)
		}
	}
}
