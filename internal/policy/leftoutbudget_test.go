// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// limitedWave is a policy with a deadline of an hour for a wave.
var limitedWave = strings.Replace(judgedStrictly(), "nodeDeadline: 5m", "nodeDeadline: 5m, waveDeadline: 1h", 1)

// wantBudgetBlocks wants that the revision has not failed, and that the status says that the budget is used up.
func (w *world) wantBudgetBlocks() {
	w.t.Helper()
	w.wantNoFailure()
	for _, b := range w.last.Blocking {
		if b.Reason == "Budget" {
			if want := "No other update starts: 1 node has no available pod, gets no other one now, and uses up the budget"; !strings.HasPrefix(b.Message, want) {
				w.t.Errorf("the message is %q, want %q", b.Message, want)
			}
			return
		}
	}
	w.t.Errorf("nothing says why the rollout does not go on: phase %s, blocking %+v, %s", w.last.Phase, w.last.Blocking, w.verdicts())
}

// A node that was broken before uses up the budget, so nothing can start: that time must not count for the deadline of the wave.
func TestABrokenNodeUsesUpTheBudget(t *testing.T) {
	w := newWorld(t, limitedWave)
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
	w.fails("a", hangs)
	for range 30 {
		w.pass(5 * time.Minute)
		w.roll()
		w.fails("a", hangs)
	}
	w.wantBudgetBlocks()
}

// A node of the wave that went down before the rollout, and that the waves leave out, uses up the budget.
func TestADeadNodeUsesUpTheBudget(t *testing.T) {
	for name, skips := range map[string]bool{"it counts": false, "it does not count": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, limitedWave+"unreachableAfter: 1m\n")
			w.s.Set.MaxUnavailable, w.s.Set.Unreachable.Skip = rollout.Quantity{Value: 1}, skips
			for range 30 {
				w.fails("a", hangs)
				w.node("a").Ready, w.node("a").Since = false, noon.Add(-time.Hour)
				w.pass(5 * time.Minute)
				if skips && blockedBy(w, "Budget") {
					t.Errorf("the status says that the budget is used up: %+v", w.last.Blocking)
				}
				w.roll()
			}
			if !skips {
				w.wantBudgetBlocks()
			} else if rest := w.have(0); rest != "a" {
				t.Errorf("%s still have the old revision", rest)
			}
		})
	}
}

// A node that has joined, and where no pod has ever been available, uses up the budget of its wave.
func TestAJoinedNodeUsesUpTheBudget(t *testing.T) {
	w := canary(t, limitedWave)
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
	w.s.Nodes = append(w.s.Nodes, rollout.Node{Name: "k", Fit: rollout.MustRun, Ready: true, Joined: w.s.Now, Last: rollout.NoRevision})
	w.pass(time.Second)
	w.put("k", 1, false)
	for range 100 {
		w.pass(time.Minute)
		w.roll()
		w.fails("k", hangs)
	}
	w.wantBudgetBlocks()
}

// A node of the active wave without an available pod needs no budget, so the status does not say that others use it up.
func TestABrokenNodeNeedsNoBudget(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}}]")
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
	w.fails("a", hangs)
	w.fails("j", hangs)
	w.pass(0)
	if blockedBy(w, "Budget") {
		t.Errorf("the status says that the budget is used up: %+v", w.last.Blocking)
	}
	w.want("a", v1alpha1.PhaseRolling, "canary")
}
