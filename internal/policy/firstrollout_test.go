// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestNothingReturnsToARevisionThatNoStatusNames: a policy that is created in the middle of a rollout that has failed knows of no committed revision but the one that most pods have.
// Nodes return to it only when the stored status names it: another manager would count again, and most pods may have another revision by then.
func TestNothingReturnsToARevisionThatNoStatusNames(t *testing.T) {
	w := newWorld(t, judged)
	w.marks = []int64{0, 0}
	for _, name := range []string{"a", "b"} {
		w.put(name, 1, false)
		w.fails(name, pulls)
	}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	if got := w.last.Blocking[0]; got.Reason != "UndoNotPossible" || !strings.Contains(got.Message, "no revision has passed all waves yet") {
		t.Errorf("it says %+v", got)
	}
	w.pass(time.Second)
	w.want("ab", v1alpha1.PhaseUndoing, "canary")
}
