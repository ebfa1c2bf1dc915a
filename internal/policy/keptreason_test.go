// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestWhyExcludedNodesKeepTheirPods: while pods of nodes that the template excludes cannot leave, the status reports why the rollout does not end. Before the change, it reported no reason.
func TestWhyExcludedNodesKeepTheirPods(t *testing.T) {
	for name, c := range map[string]struct {
		change       func(w *world)
		reason, text string
	}{
		"paused":  {func(w *world) { w.s.Set.Paused = true }, "Paused", "the daemon set is paused"},
		"a limit": {func(w *world) { w.s.Set.Partition = rollout.Quantity{Value: 1} }, "Partition", "may keep their pods"},
		"a dead node": {func(w *world) { dies(w, "b") }, "Budget",
			"No pod leaves the nodes that the template excludes: 1 node has no available pod and uses up the budget, for maxUnavailable is 1. Make its pod available, or raise maxUnavailable."},
		"a pod that does not work": {func(w *world) {
			w.node("b").Pods[0].Ready, w.node("b").Pods[0].Created = false, w.s.Now.Add(-time.Hour)
		}, "Budget", "1 node has no available pod and uses up the budget"},
		"a surge and dead nodes": {func(w *world) {
			w.s.Set.MaxUnavailable, w.s.Set.MaxSurge = rollout.Quantity{}, rollout.Quantity{Value: 5}
			for _, name := range []string{"b", "c", "d"} {
				dies(w, name)
			}
		}, "Budget", "No pod leaves the nodes that the template excludes (h, i, j), because the set surges and 3 nodes have no available pod. Make their pods available, or delete the pods on the excluded nodes."},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "{unreachableAfter: 1s, waves: [{name: canary, nodes: {count: 1}}]}")
			w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
			selects(w, "abcde")
			for w.have(0) != "hij" {
				w.pass(time.Second)
				if len(w.last.Blocking) > 0 {
					t.Fatal(w.last.Blocking)
				}
				leave(w)
			}
			c.change(w)
			for range 3 {
				w.pass(time.Second)
				if leave(w) > 0 || w.out.Commit >= 0 {
					t.Fatal("pods leave")
				}
			}
			if b := w.last.Blocking; w.last.Phase != v1alpha1.PhaseRolling || len(b) != 1 || b[0].Reason != c.reason || !strings.Contains(strings.ToLower(b[0].Message), strings.ToLower(c.text)) {
				t.Errorf("%s %+v", w.last.Phase, b)
			}
		})
	}
}

// dies lets a node be down for long.
func dies(w *world, name string) {
	n := w.node(name)
	n.Ready, n.Since, n.Pods[0].Ready = false, 1, false
}
