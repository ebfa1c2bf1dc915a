// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestNumbersOfAnUndo: during an undo and after it, the waves count the nodes that still have the revision.
func TestNumbersOfAnUndo(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 3}}, {name: half, nodes: {percent: 50}, soak: 1h}]\nfailure: {action: Undo}\nundo: {maxUnavailable: 1}")
	want := func(canary, half int32) {
		t.Helper()
		for name, number := range map[string]int32{"canary": canary, "half": half} {
			if s := w.wave(name); s.Updated != number || s.Available != number {
				t.Errorf("wave %s: %d updated, %d available, want %d", name, s.Updated, s.Available, number)
			}
		}
	}
	w.pass(0)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.want("de", v1alpha1.PhaseRolling, "half")
	w.pass(time.Second)
	want(3, 2)
	w.approve("bad", "", "v2", v1alpha1.UndoRollout)
	w.pass(time.Second)
	w.pass(time.Second)
	if got, want := w.messages[len(w.messages)-1], "Revision agent-v2 is undone: nodes return to the committed revision agent-v1. The undo was requested by ada."; !strings.HasPrefix(got, want) {
		t.Errorf("the event is %q, want %q", got, want)
	}
	for left := int32(5); left > 0; left-- {
		if w.last.Phase != v1alpha1.PhaseUndoing {
			t.Fatalf("phase %s", w.last.Phase)
		}
		want(min(left, 3), max(left-3, 0))
		w.roll()
		w.pass(time.Second)
	}
	w.want("", v1alpha1.PhaseFailed, "")
	want(0, 0)
	w.lead()
	w.pass(time.Second)
	want(0, 0)
	// A retry begins again with the numbers of the nodes.
	w.approve("again", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	want(3, 0)
}
