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

// TestAnUndoThatFailsUnderOtherManagers: the pods that an undo has created count for the next manager, too, which measures their time again: otherwise each one would let the undo go on to
// further nodes.
func TestAnUndoThatFailsUnderOtherManagers(t *testing.T) {
	w, first := allUndone(t)
	for range 3 {
		w.lead()
		for range 6 {
			w.pass(time.Minute)
			if more := w.roll(); more != "" {
				t.Fatalf("%q return, although the committed revision does not work on node %s: %+v", more, first, w.last.Blocking)
			}
		}
		if !policy.UndoStopped(w.last) {
			t.Fatalf("phase %s: %+v", w.last.Phase, w.last.Blocking)
		}
	}
	w.lead()
	w.put(first, 0, true)
	w.pass(time.Minute)
	if w.roll() == "" {
		t.Errorf("the undo does not go on: %s", w.verdicts())
	}
}
