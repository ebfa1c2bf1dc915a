// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/internal/policy"
)

// TestAnUndoThatFailsWhereTheClockIsFast: the clock of the manager is ahead of that of the API server when the revision fails, so the pods that the undo creates look older than the failure. The
// manager has seen that they are new ones, so they count.
func TestAnUndoThatFailsWhereTheClockIsFast(t *testing.T) {
	w, first := allUndone(t)
	p := &w.node(first).Pods[0]
	p.UID, p.Created = "new", p.Created.Add(-time.Hour)
	for range 6 {
		w.pass(time.Minute)
	}
	if !policy.UndoStopped(w.last) {
		t.Errorf("phase %s: %+v", w.last.Phase, w.last.Blocking)
	}
}
