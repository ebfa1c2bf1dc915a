// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestWaveDeadlineWhileANodeThatDoesNotCountUsesUpTheBudget: no time counts for the deadline of a wave because of a node that lacks its pod for another reason than the revision. If such a node uses up the budget, no other
// node of the wave can start, and the time does not count because of these either.
func TestWaveDeadlineWhileANodeThatDoesNotCountUsesUpTheBudget(t *testing.T) {
	for name, c := range map[string]struct {
		lacks func(w *world, n *rollout.Node)
		fails bool
	}{
		"others use a quota up": {func(w *world, n *rollout.Node) {
			n.Refusal = &rollout.Refusal{Message: "exceeded quota: q", Denied: true, Quota: true, RetryAt: w.s.Now.Add(time.Hour)}
		}, false},
		"a webhook cannot be called": {func(w *world, n *rollout.Node) {
			n.Refusal = &rollout.Refusal{Message: "failed calling webhook", RetryAt: w.s.Now.Add(time.Hour)}
		}, false},
		"the node is not ready": {func(w *world, n *rollout.Node) { n.Ready, n.Since = false, w.s.Now }, false},
		"the revision": {func(w *world, n *rollout.Node) {
			n.Refusal = &rollout.Refusal{Message: "the image is not allowed", Denied: true, RetryAt: w.s.Now.Add(time.Hour)}
		}, true},
	} {
		w := newWorld(t, "waves: [{name: canary, nodes: {count: 3}, soak: 1m}]\nfailure: {nodeDeadline: 500m, waveDeadline: 10m, action: Undo}")
		w.claims = func(_, _ int) bool { return false }
		w.s.Set.MaxUnavailable.Value = 1
		w.pass(0)
		w.want("a", v1alpha1.PhaseRolling, "canary")
		a := w.node("a")
		a.Pods, a.Last = nil, 1
		c.lacks(w, a)
		for range 20 {
			w.pass(time.Minute)
		}
		if failed := w.last.Failure != nil; failed != c.fails {
			t.Errorf("%s: the failure is %+v, the wave has rolled for %+v", name, w.last.Failure, w.last.Waves[0].Rolled)
		}
	}
}
