// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// TestPaceWhereUnreachableNodesAreSkipped: a set leaves out nodes that are not ready. A pod that was deleted there later is no update that counts, so it makes no room for
// others in the pace.
func TestPaceWhereUnreachableNodesAreSkipped(t *testing.T) {
	w := newWorld(t, "pace: {maxUpgrading: 1}")
	w.s.Set.Unreachable.Skip = true
	w.s.Revisions[1].Created = w.s.Now.Add(-30 * time.Minute)
	for _, name := range []string{"h", "i", "j"} {
		n := w.node(name)
		n.Ready, n.Since = false, w.s.Now.Add(-2*time.Hour)
		n.Pods[0].Created, n.Pods[0].ReadySince = rollout.Time(1), rollout.Time(1)
		n.Pods[0].Ready, n.Pods[0].Deleting, n.Pods[0].DeletedAt = false, true, w.s.Now.Add(-10*time.Minute)
	}
	w.pass(0)
	if got := w.roll(); got != "a" {
		t.Errorf("maxUpgrading is 1, and %s start at once: %s", got, w.verdicts())
	}
}
