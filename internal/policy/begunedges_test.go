// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestLeftOutAndGone: a wave of which one node is gone, and the others are left out, stops with a reason, and a user can go on.
func TestLeftOutAndGone(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 10s}]\nunreachableAfter: 1m")
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.node("a").Ready, w.node("a").Since = false, w.s.Now
	w.put("a", 1, false)
	w.pass(0)
	w.vanish("b")
	w.pass(2 * time.Minute)
	w.want("", v1alpha1.PhaseStalled, "canary")
	w.approve("yes", "canary", "v2", v1alpha1.Promote)
	w.pass(0)
	w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
}

// TestSelectorOfAWaveThatChanges: a node that a wave does not match any more has no place in it.
func TestSelectorOfAWaveThatChanges(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 10s}]")
	w.labels["d"] = map[string]string{"canary": "true"}
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.policies[0] = read(t, "waves: [{name: canary, nodes: {count: 1, selector: {matchLabels: {canary: 'true'}}}, soak: 10s}]")
	w.pass(time.Second)
	w.want("d", v1alpha1.PhaseRolling, "canary")
}

// TestGrowthWithOrder: a node that joins in an earlier zone does not begin before the step is done.
func TestGrowthWithOrder(t *testing.T) {
	w := newWorld(t, "waves: [{name: all, nodes: {percent: 100}, growth: {start: 1, factor: 2}}]\norder: {topologyKey: zone}")
	for _, n := range w.s.Nodes {
		w.labels[n.Name] = map[string]string{"zone": "2"}
	}
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "all")
	w.put("a", 1, false)
	w.pass(0)
	w.want("", v1alpha1.PhaseRolling, "all")
	w.join("k", w.s.Now, 0)
	w.labels["k"] = map[string]string{"zone": "1"}
	w.pass(0)
	w.want("", v1alpha1.PhaseRolling, "all")
	w.put("a", 1, true)
	w.pass(0)
	w.want("k", v1alpha1.PhaseRolling, "all")
	w.pass(0)
	w.want("b", v1alpha1.PhaseRolling, "all")
}

// TestSelectedNodesThatVanish: a wave whose selector matches no node any more, because they are gone, is one whose nodes are gone.
func TestSelectedNodesThatVanish(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1, selector: {matchLabels: {canary: 'true'}}}, soak: 10s}]")
	w.labels["a"] = map[string]string{"canary": "true"}
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(0)
	w.vanish("a")
	w.pass(0)
	if b := w.out.Status.Blocking; len(b) != 1 || b[0].Reason != policy.NodesGone {
		t.Errorf("%+v", b)
	}
	w.approve("yes", "canary", "v2", v1alpha1.Promote)
	w.pass(0)
	w.want("bcdefghij", v1alpha1.PhaseRolling, "remaining")
}

// TestStalledOutsideOfAWindow: a wave that grows and has lost its first nodes says so, also while a freeze is active.
func TestStalledOutsideOfAWindow(t *testing.T) {
	w := newWorld(t, "waves: [{name: all, nodes: {percent: 100}, growth: {start: 1, factor: 2}}]")
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "all")
	w.pass(0)
	w.vanish("a")
	w.policies[0].Freezes = []policy.Freeze{{From: noon, To: noon.Add(time.Hour)}}
	w.pass(0)
	w.want("", v1alpha1.PhaseStalled, "all")
	if got := w.messages[len(w.messages)-1]; w.events[len(w.events)-1] != policy.ReasonRolloutStalled || !strings.Contains(got, "on 1 node of the wave all") {
		t.Errorf("%v: %s", w.events, got)
	}
}

// TestNoNamesAtRest: the status names no nodes when the rollout has ended.
func TestNoNamesAtRest(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 3}}]")
	for range 4 {
		w.pass(0)
		w.roll()
	}
	if s := w.wave("canary"); w.out.Status.Phase != v1alpha1.PhaseComplete || len(s.Begun) > 0 {
		t.Errorf("%s %+v", w.out.Status.Phase, s)
	}
}
