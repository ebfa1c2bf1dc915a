// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestAnApprovalOfAWaveThatThePolicyLacks: it has no effect, and the status names the waves. After another template its message says why it is void.
func TestAnApprovalOfAWaveThatThePolicyLacks(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, after: [{type: Approval}]}]")
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.pass(10 * time.Second)
	w.approve("wrong", "nosuch", "v2", v1alpha1.Approve)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	last := w.last.Blocking[len(w.last.Blocking)-1]
	if want := "rolloutapproval/wrong has no effect yet. The policy has no wave nosuch: it has canary, remaining. Create another RolloutApproval, or add the wave."; last.Message != want {
		t.Errorf("blocking %+v, want %s", last, want)
	}
	w.pass(time.Hour)
	w.change("v3")
	w.pass(time.Second)
	got := w.approvals[0].Status
	if got.State != v1alpha1.ApprovalVoid || !strings.HasPrefix(got.Message, "The decision is about revision agent-v2, and the template of the daemon set describes agent-v3. The policy has no wave nosuch: it has canary, remaining.") {
		t.Errorf("%+v", got)
	}
}
