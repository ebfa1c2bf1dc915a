// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestUndoOfARevisionThatNoNodeHasHad: nothing has returned then.
func TestUndoOfARevisionThatNoNodeHasHad(t *testing.T) {
	w := newWorld(t, "suspend: true")
	w.pass(0)
	w.approve("undo", "", "v2", v1alpha1.UndoRollout)
	for range 3 {
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseFailed, "")
		w.say("Failed", "The undo was requested by ada. No node has had the revision, so no node must return.")
	}
}

// TestAnUndoThatHasStoppedReturnsNothing: no sentence says that nodes return then.
func TestAnUndoThatHasStoppedReturnsNothing(t *testing.T) {
	w := canary(t, judged)
	w.fails("a", pulls)
	w.fails("b", pulls)
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseUndoing, "canary")
	w.fails("a", pulls)
	w.fails("b", pulls)
	w.pass(time.Second)
	if w.last.Blocking[0].Reason != "UndoFailed" {
		t.Fatalf("%+v", w.last.Blocking)
	}
	for _, b := range w.last.Blocking {
		if strings.Contains(b.Message, "return to the committed revision.") {
			t.Errorf("it says %q", b.Message)
		}
	}
}
