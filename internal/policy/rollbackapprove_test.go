// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestApprovalOfARollbackWhereTheClocksDiffer: only the manager's clock says when a rollback began. If it is fast, an approval that a user creates soon after that counts, and an old one does not.
func TestApprovalOfARollbackWhereTheClocksDiffer(t *testing.T) {
	for fast, want := range map[time.Duration]v1alpha1.ApprovalState{20 * time.Second: v1alpha1.ApprovalValid, time.Hour: v1alpha1.ApprovalVoid} {
		w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, after: [{type: Approval}]}, {name: rest, nodes: {percent: 100}}]")
		w.outdates()
		w.pass(0)
		w.want("a", v1alpha1.PhaseRolling, "canary")
		now := w.s.Now
		w.s.Now = now.Add(5*time.Second - fast) // the clock of the API server
		w.approve("go", "canary", "v2", v1alpha1.Approve)
		w.s.Now = now
		w.pass(5 * time.Second)
		if got := w.approvals[0].Status.State; got != want {
			t.Errorf("%s: %s: %s", fast, got, w.approvals[0].Status.Message)
		}
	}
}
