// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"slices"
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestRejectionsThatNameAnotherPolicy count if they are about the revision of the template in this rollout.
func TestRejectionsThatNameAnotherPolicy(t *testing.T) {
	rejection := func(name, policy, revision string, number int64) v1alpha1.RolloutApproval {
		a := v1alpha1.RolloutApproval{Spec: v1alpha1.RolloutApprovalSpec{Policy: policy, Set: "agent", Revision: revision, Decision: v1alpha1.Reject}}
		a.Name, a.Status = name, v1alpha1.RolloutApprovalStatus{State: v1alpha1.ApprovalValid, TargetNumber: number}
		return a
	}
	got := Rejections([]v1alpha1.RolloutApproval{
		rejection("own", "agents", "gone", 2), rejection("other", "before", "agent-2", 2), rejection("another-kind", "before", "gone", 2), rejection("earlier", "before", "agent-2", 1),
	}, "agents", &v1alpha1.SetStatus{Name: "agent", TargetRevision: "agent-2", TargetNumber: 2})
	if !slices.Equal(got, []string{"own", "other"}) {
		t.Error(got)
	}
}
