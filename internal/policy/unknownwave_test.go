// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
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

// TestAMessageOfManyLongNames: the API server refuses a message of more than 1024 characters, and with it the status of the policy, which contains what could not be written into the approval.
func TestAMessageOfManyLongNames(t *testing.T) {
	long := strings.Repeat("w", 61)
	spec := "waves: ["
	for i := range 10 {
		spec += fmt.Sprintf("{name: %s-%d, nodes: {count: %d}}, ", long, i, i+1)
	}
	w := newWorld(t, spec+"]")
	for i := range w.s.Revisions {
		w.s.Revisions[i].Name = strings.Repeat("r", 230) + w.s.Revisions[i].Name
	}
	w.approve("wrong", "nosuch", w.s.Revisions[0].Name, v1alpha1.Approve)
	w.pass(time.Second)
	if got := w.approvals[0].Status; got.State != v1alpha1.ApprovalVoid || len([]rune(got.Message)) != 1024 {
		t.Errorf("%d characters: %+v", len(got.Message), got)
	}
}
