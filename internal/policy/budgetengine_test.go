// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// budgetIsReason has the canary a updated, and requires that no other node starts, for the reason Budget.
func budgetIsReason(t *testing.T, limit string, breaks func(w *world)) {
	t.Helper()
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}}, {name: rest, nodes: {percent: 100}}]\nunreachableAfter: 1m")
	w.s.Set.MaxUnavailable.Value = 1
	if limit == "maxSurge" {
		w.s.Set.MaxUnavailable.Value, w.s.Set.MaxSurge.Value = 0, 1
	}
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.s.Nodes[0].Pods = w.s.Nodes[0].Pods[:1]
	w.s.Set.Paused = true
	w.pass(time.Second)
	w.s.Set.Paused = false
	breaks(w)
	w.pass(5 * time.Minute)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "rest")
	lacks := map[string]string{"maxUnavailable": "1 node has no available pod, gets", "maxSurge": "1 node has two pods, or none that is available, gets"}[limit]
	if !blockedBy(w, "Budget") || !strings.Contains(w.last.Blocking[0].Message, limit+" is 1.") || !strings.Contains(w.last.Blocking[0].Message, lacks) {
		t.Errorf("blocking %+v: %s", w.last.Blocking, w.verdicts())
	}
}

// TestBudgetOfANodeThatOnlyKeepsItsPod: such a node uses up the budget of the set too.
func TestBudgetOfANodeThatOnlyKeepsItsPod(t *testing.T) {
	budgetIsReason(t, "maxUnavailable", func(w *world) { w.node("a").Fit, w.node("a").Pods[0].Ready = rollout.MayStay, false })
}

// TestBudgetOfAPassedWave: a pod of a wave that has passed is not available any more.
func TestBudgetOfAPassedWave(t *testing.T) {
	budgetIsReason(t, "maxUnavailable", func(w *world) { w.node("a").Pods[0].Ready = false })
}

// TestBudgetOfANodeThatWentDownAfterItsUpdate: by the rule of AdvancedRollingUpdate, a node that is not ready uses up the budget if the update may be the reason, also that of a set that surges.
func TestBudgetOfANodeThatWentDownAfterItsUpdate(t *testing.T) {
	for _, limit := range []string{"maxUnavailable", "maxSurge"} {
		budgetIsReason(t, limit, func(w *world) {
			w.s.Set.Unreachable = rollout.Unreachable{Skip: true, AttributionWindow: time.Minute}
			n := w.node("a")
			n.Ready, n.Since, n.Pods[0].Ready = false, w.s.Now, false
		})
	}
}
