// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestCommittedWithoutANodeThatMayFail: the event that ends the rollout names the node on which the revision has failed.
func TestCommittedWithoutANodeThatMayFail(t *testing.T) {
	w := canary(t, judged)
	for range 40 {
		w.fails("a", pulls)
		w.pass(time.Minute)
		w.roll()
	}
	const want = "All nodes have revision agent-v2, except those without an available pod of it (1): a."
	if w.last.Phase != v1alpha1.PhaseComplete || !slices.Contains(w.messages, want) {
		t.Errorf("phase %s, messages %q, want %q", w.last.Phase, w.messages, want)
	}
}
