// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// leave carries a plan out: deleted pods are gone, and it returns their number.
func leave(w *world) (count int) {
	s := w.s
	w.out.Enter(&s, nil)
	for _, a := range rollout.Decide(s).Actions {
		name := w.s.Nodes[a.Node].Name
		if a.Kind == rollout.Delete {
			w.node(name).Pods = nil
			count++
		} else {
			w.put(name, a.Revision, true)
		}
	}
	return count
}

// TestPodsOfExcludedNodesLeaveWithinTheBudget: pods of nodes that only the template excludes leave within the budget, and the rollout ends after that. Before the change, the rollout ended with its last member,
// and all pods that were left by then were removed at once.
func TestPodsOfExcludedNodesLeaveWithinTheBudget(t *testing.T) {
	for name, c := range map[string]struct{ spec, nodes, have string }{
		"no waves, no node": {"pace: {maxUnavailable: 2}", "", ""},
		"a pace, no node":   {"pace: {maxUpgrading: 1}", "", ""},
		"no waves":          {"pace: {maxUnavailable: 2}", "a", "a"},
		"waves":             {"{waves: [{name: canary, nodes: {count: 1}}]}", "a", "a"},
		"a pace":            {"{waves: [{name: canary, nodes: {count: 1}}], pace: {maxUpgrading: 2}}", "a", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.spec)
			w.s.Set.MaxUnavailable = rollout.Quantity{Value: 2}
			selects(w, c.nodes)
			for range 12 {
				w.pass(time.Second)
				if left := leave(w); left > 2 {
					t.Errorf("%d pods leave at once", left)
				}
			}
			if w.last.Phase != v1alpha1.PhaseComplete || w.have(0) != "" || w.have(1) != c.have {
				t.Errorf("%s, %q have the old revision, %q the new one: %+v", w.last.Phase, w.have(0), w.have(1), w.last.Blocking)
			}
		})
	}
}

// TestExcludedNodesThatCannotBeEmptied: the rollout ends without nodes of which no pod can be removed, and without those of a set that updates no node that only keeps its pod.
func TestExcludedNodesThatCannotBeEmptied(t *testing.T) {
	for name, change := range map[string]func(w *world, n *rollout.Node){
		"down":                  func(w *world, n *rollout.Node) { n.Ready, n.Since = false, w.s.Now },
		"refused":               func(_ *world, n *rollout.Node) { n.Refusal = &rollout.Refusal{Denied: true, Of: rollout.Delete} },
		"an Advanced DaemonSet": func(w *world, _ *rollout.Node) { w.s.Set.EligibleOnly = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}}]")
			selects(w, "abcdefghi")
			for range 2 {
				w.pass(time.Second)
				w.roll()
				change(w, w.node("j"))
			}
			for k := 0; k < 3 && w.out.Commit < 0; k++ {
				w.put("j", 0, true)
				w.pass(time.Second)
			}
			if w.out.Commit != 1 {
				t.Errorf("%s %+v", w.last.Phase, w.last.Blocking)
			}
		})
	}
}

// TestExcludedNodesWithoutABudget: a percentage of no nodes is no budget, so it does not delay the end, and neither does a surge.
func TestExcludedNodesWithoutABudget(t *testing.T) {
	for name, set := range map[string]rollout.Set{
		"a percentage":           {MaxUnavailable: rollout.Quantity{Value: 20, Percent: true}},
		"a surge":                {MaxSurge: rollout.Quantity{Value: 2}},
		"a percentage of surges": {MaxSurge: rollout.Quantity{Value: 20, Percent: true}},
	} {
		for _, nodes := range []string{"", "a"} {
			t.Run(name+" "+nodes, func(t *testing.T) {
				w := newWorld(t, "pace: {maxUpgrading: 5}")
				w.s.Set.MaxUnavailable, w.s.Set.MaxSurge = set.MaxUnavailable, set.MaxSurge
				selects(w, nodes)
				for range 20 {
					w.pass(time.Second)
					leave(w)
				}
				if w.last.Phase != v1alpha1.PhaseComplete || w.have(0) != "" || w.have(1) != nodes {
					t.Errorf("%s, %q have the old revision, %q the new one: %+v", w.last.Phase, w.have(0), w.have(1), w.last.Blocking)
				}
			})
		}
	}
}
