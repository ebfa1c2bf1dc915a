// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestCrashBetweenTheMarkAndTheStatus: a manager dies after it has marked a revision as committed, and before the status names it. While the template stays, the
// revision is committed again. If the template changes first, the status decides, because another account could have written the mark: an undo returns to the
// revision that the status names, which gets the newest mark.
func TestCrashBetweenTheMarkAndTheStatus(t *testing.T) {
	for _, changes := range []bool{false, true} {
		w := newWorld(t, "{waves: [{name: canary, nodes: {count: 3}, soak: 10s}], failure: {waitingReasons: [ImagePullBackOff], action: Undo}}")
		for range 60 {
			before := w.last
			if w.pass(time.Second); w.marks[1] > 0 {
				w.last, w.restored = before, true
				break
			}
			w.roll()
		}
		if w.last == nil || w.last.CommittedRevision != "agent-v1" || w.have(1) != "abcdefghij" || w.marks[1] != 2 {
			t.Fatalf("status %+v, %s have the revision, marks %v", w.last, w.have(1), w.marks)
		}
		if !changes {
			for range 3 {
				w.pass(time.Second)
				if got := w.roll(); got != "" {
					t.Errorf("%s rolled", got)
				}
			}
			if w.last.Phase != v1alpha1.PhaseComplete || w.last.CommittedRevision != "agent-v2" {
				t.Errorf("phase %s, committed %s", w.last.Phase, w.last.CommittedRevision)
			}
			continue
		}
		w.change("v3")
		for range 3 { // the committed revision gets the newest mark first
			w.pass(time.Second)
			w.roll()
		}
		if w.marks[0] <= w.marks[1] || w.last.CommittedRevision != "agent-v1" || w.have(2) != "abc" {
			t.Fatalf("marks %v, committed %s, %s have the target", w.marks, w.last.CommittedRevision, w.have(2))
		}
		w.fails("a", pulls)
		for range 5 {
			w.pass(time.Second)
			w.roll()
		}
		if got := w.have(0); got != "abcdefghij" {
			t.Errorf("%s have the revision that the status names, phase %s", got, w.last.Phase)
		}
	}
}
