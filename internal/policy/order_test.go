// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"strings"
	"testing"

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
