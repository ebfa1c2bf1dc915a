// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestAnUndoLongAfterThePause: a user asks for the undo some time after the revision has failed. A pod of the committed revision that was created, and restarted, in the meantime, is none that the undo has
// created: it does not stop it.
func TestAnUndoLongAfterThePause(t *testing.T) {
	w := canary(t, strings.Replace(strings.Replace(judged, "maxFailedNodes: 1", "maxFailedNodes: 0", 1), "action: Undo", "action: Pause", 1))
	w.fails("a", restarts)
	w.pass(time.Second)
	w.pass(6 * time.Minute)
	if w.last.Phase != v1alpha1.PhaseFailed {
		t.Fatalf("the phase is %s", w.last.Phase)
	}
	w.pass(time.Hour)
	w.put("j", 0, true)
	p := &w.node("j").Pods[0]
	p.Created, p.ReadySince, p.Restarts = w.s.Now.Add(-time.Minute), w.s.Now, 9
	w.pass(time.Minute)
	w.approve("undo", "", strings.TrimPrefix(w.last.TargetRevision, "agent-"), v1alpha1.UndoRollout)
	w.pass(time.Second)
	w.pass(time.Second)
	if w.last.Phase != v1alpha1.PhaseUndoing {
		t.Errorf("the phase is %s: %+v", w.last.Phase, w.last.Blocking)
	}
}
