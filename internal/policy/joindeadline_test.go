// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// TestAWaveBehindANodeThatJoins: a node joins when the rollout begins, and gets the new revision at once. No pod works there, which uses up the budget, so no update of the wave starts. The time
// until nodeDeadline does not count for waveDeadline: nothing shows that the revision is the reason.
func TestAWaveBehindANodeThatJoins(t *testing.T) {
	w := newWorld(t, `
waves: [{name: canary, nodes: {count: 11}}]
joiningNodes: Latest
failure: {nodeDeadline: 20m, waveDeadline: 5m, maxFailedNodes: 0, action: Undo}
`)
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
	w.s.Set.Update = 0
	w.pass(0)
	w.s.Set.Update = 1
	w.joins("k")
	w.pass(0)
	w.put("k", 1, false)
	for range 10 {
		w.pass(time.Minute)
		if got := w.roll(); got != "" {
			t.Fatalf("rolls %q", got)
		}
	}
	w.wantNoFailure()
	for range 11 {
		w.pass(time.Minute)
	}
	w.wantNoFailure()
	if got := w.roll(); got != "" && got != "a" {
		t.Errorf("rolls %q", got)
	}
}
