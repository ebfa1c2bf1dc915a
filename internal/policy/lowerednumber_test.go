// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestApprovalOfAnEarlierRolloutWithLoweredNumbers: an account that may write ControllerRevisions lowers their numbers, so the next rollout of a revision would have the number of an earlier one.
// The approval of that does not count again.
func TestApprovalOfAnEarlierRolloutWithLoweredNumbers(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, after: [{type: Approval}]}]")
	w.pass(time.Minute)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.approve("earlier", "canary", "v2", v1alpha1.Approve)
	w.pass(time.Minute)
	w.want("bcdefghij", v1alpha1.PhaseRolling, "remaining")
	w.pass(time.Minute)
	w.pass(time.Minute)
	w.s.Set.Update, w.s.Revisions[0].Number = 0, 3
	for range 20 {
		w.pass(time.Minute)
		w.roll()
		if w.out.Status.Phase == v1alpha1.PhaseWaitingForApproval {
			w.approve("back", "canary", "v1", v1alpha1.Approve)
		}
	}
	if w.out.Status.Phase != v1alpha1.PhaseComplete {
		t.Fatalf("the rollout of v1 is %s", w.out.Status.Phase)
	}
	w.s.Set.Update, w.s.Revisions[0].Number = 1, 1 // the account
	w.pass(time.Minute)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	w.lead()
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
}
