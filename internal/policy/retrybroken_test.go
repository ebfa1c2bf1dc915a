// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestRetryBeforeTheUndoHasEnded: a pod that the undo has just made is not available yet when a user retries the revision. Its node was not broken before: the rollout
// took its pod. So the wave waits for it.
func TestRetryBeforeTheUndoHasEnded(t *testing.T) {
	w := canary(t, judged)
	w.fails("a", pulls)
	w.fails("b", pulls)
	for range 3 {
		w.pass(time.Second)
		w.roll()
		w.fails("a", hangs)
	}
	if p := w.node("a").Pods[0]; p.Revision != 0 {
		t.Fatalf("a has revision %d in the phase %s", p.Revision, w.last.Phase)
	}
	w.approve("retry", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "")
	for range 3 {
		w.pass(time.Second)
		w.roll()
		w.fails("a", hangs)
	}
	w.pass(2 * time.Minute)
	w.want("", v1alpha1.PhaseRolling, "canary")
	if wave := w.last.Waves[0]; wave.Nodes != 3 || len(w.last.NotReadyBefore) > 0 {
		t.Errorf("the wave has %d nodes, and %v were not ready before", wave.Nodes, w.last.NotReadyBefore)
	}
}
