// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// TestWaveDeadlineOfOwners: with over-the-air updates, the owner of each node decides when its pod is updated. A wave is not late because owners wait, and is if an update that they have begun does
// not end.
func TestWaveDeadlineOfOwners(t *testing.T) {
	w := newWorld(t, `
waves: [{name: canary, nodes: {count: 3}}]
failure: {nodeDeadline: 24h, waveDeadline: 1h, action: Undo}
`)
	w.s.Set.Strategy, w.s.Set.Announce = rollout.OnDelete, true
	w.pass(0)
	for range 120 {
		w.pass(time.Minute)
	}
	if w.last.Failure != nil {
		t.Fatalf("no owner has updated a node: %s", w.last.Failure.Message)
	}
	w.put("a", 1, false)
	for range 63 {
		w.pass(time.Minute)
	}
	if w.last.Failure == nil {
		t.Errorf("the update of a does not end: %+v", w.last.Waves[0])
	}
}
