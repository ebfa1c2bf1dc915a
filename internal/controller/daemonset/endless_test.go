// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"

	"everynode.dev/everynode/internal/rollout"
)

// TestWhatWaitsForAnImageWithoutAnEnd: only a node that may be updated causes a pass each minute, and none whose revision has failed, whatever else it waits for.
func TestWhatWaitsForAnImageWithoutAnEnd(t *testing.T) {
	for name, c := range map[string]struct {
		held rollout.VerdictKind
		says rollout.VerdictKind
		want bool
	}{
		"it waits for its turn":                           {rollout.NotEvaluated, rollout.WaitBudget, true},
		"its set is paused":                               {rollout.NotEvaluated, rollout.WaitPaused, false},
		"the policy has failed its revision":              {rollout.WaitFailed, rollout.WaitFailed, false},
		"the same, and its node is down after its update": {rollout.WaitFailed, rollout.WaitUnreachable, false},
	} {
		s := rollout.Snapshot{Nodes: []rollout.Node{{Name: "a", ImageWait: true}}, Gate: &rollout.Gate{Holds: []rollout.VerdictKind{c.held}}}
		if got := endless(&s, &rollout.Plan{Verdicts: []rollout.Verdict{{Kind: c.says}}}); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
