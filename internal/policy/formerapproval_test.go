// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestDecisionsOfAFormerSet: a daemon set is deleted and created again, so its revisions get the numbers of before. What a user has decided about the former one does not count.
func TestDecisionsOfAFormerSet(t *testing.T) {
	for _, decision := range []v1alpha1.Decision{v1alpha1.Approve, v1alpha1.Promote} {
		w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 1h, after: [{type: Approval}]}]")
		w.pass(0)
		w.want("a", v1alpha1.PhaseRolling, "canary")
		w.approve("earlier", "canary", "v2", decision)
		w.pass(time.Minute)
		w.pass(2 * time.Hour)
		if w.approvals[0].Status.State != v1alpha1.ApprovalValid {
			t.Fatalf("the decision is %+v", w.approvals[0].Status)
		}
		again := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 1h, after: [{type: Approval}]}]")
		again.s.Now = w.s.Now.Add(time.Hour)
		again.approvals = w.approvals
		again.s.Revisions[1].Created = again.s.Now
		again.pass(0)
		again.want("a", v1alpha1.PhaseRolling, "canary")
		again.pass(time.Minute)
		again.want("", v1alpha1.PhaseSoaking, "canary")
		again.pass(2 * time.Hour)
		again.want("", v1alpha1.PhaseWaitingForApproval, "canary")
		again.lead()
		again.pass(time.Second)
		again.want("", v1alpha1.PhaseWaitingForApproval, "canary")
		again.approve("now", "canary", "v2", v1alpha1.Approve)
		again.pass(time.Second)
		again.want("bcdefghij", v1alpha1.PhaseRolling, "remaining")
	}
}
