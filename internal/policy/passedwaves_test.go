// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestPassedWavesTakeNoFurtherNodes: a wave that has passed takes no node that existed before: its update would begin at once, before its own wave is released.
func TestPassedWavesTakeNoFurtherNodes(t *testing.T) {
	for name, happens := range map[string]func(w *world){
		"a place that was never used":                     func(*world) {},
		"a place that was never used, and a node reboots": func(w *world) { w.node("f").Since = w.s.Now },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "waves: [{name: canary, nodes: {count: 3}}, {name: half, nodes: {count: 2}, soak: 1h}]\nunreachableAfter: 1m")
			w.isCut("a")
			w.pass(0)
			w.want("bc", v1alpha1.PhaseRolling, "canary")
			w.pass(time.Second)
			w.want("de", v1alpha1.PhaseRolling, "half")
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseSoaking, "half")
			w.vanish("a")
			happens(w)
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseSoaking, "half")
		})
	}
	t.Run("nodes that were updated in another wave", func(t *testing.T) {
		w := newWorld(t, "waves: [{name: canary, nodes: {count: 3}}]\nunreachableAfter: 1m")
		w.isCut("a")
		w.pass(0)
		w.want("bc", v1alpha1.PhaseRolling, "canary")
		w.pass(time.Second)
		w.want("defghij", v1alpha1.PhaseRolling, "remaining")
		w.put("j", 1, false)
		w.vanish("a")
		w.pass(time.Second)
		if canary := w.last.Waves[0]; canary.Nodes != 2 || w.last.Wave != "remaining" {
			t.Errorf("%s: %+v", w.last.Wave, canary)
		}
	})
	t.Run("a percentage that had no nodes", func(t *testing.T) {
		w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}}, {name: tenth, nodes: {percent: 10}}, {name: half, nodes: {percent: 50}, soak: 1h}]")
		w.pass(0)
		w.want("ab", v1alpha1.PhaseRolling, "canary")
		w.pass(time.Second)
		w.want("cde", v1alpha1.PhaseRolling, "half")
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseSoaking, "half")
		for _, name := range "klmnopqrstuvwxyzABCDEFGHIJ" {
			w.join(string(name), w.s.Now, 0)
		}
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseSoaking, "half")
	})
	t.Run("a percentage of nodes without a taint", func(t *testing.T) {
		w := newWorld(t, "waves: [{name: some, nodes: {percent: 20}}, {name: one, nodes: {count: 1}, soak: 1h}]")
		for _, name := range "efghij" {
			w.node(string(name)).Fit = rollout.MayStay
		}
		w.pass(0)
		w.want("a", v1alpha1.PhaseRolling, "some")
		w.pass(time.Second)
		w.want("b", v1alpha1.PhaseRolling, "one")
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseSoaking, "one")
		for _, name := range "efghij" {
			w.node(string(name)).Fit = rollout.MustRun
		}
		w.pass(time.Second)
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseSoaking, "one")
	})
}
