// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"strings"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// Rejections are the names of the approvals that reject the revision that a set is updated to, as the status of its policy has it. They may name another policy, which
// the set had before.
func Rejections(approvals []v1alpha1.RolloutApproval, policy string, st *v1alpha1.SetStatus) []string {
	var names []string
	for i := range approvals {
		a := &approvals[i]
		about := (a.Spec.Policy == policy || a.Spec.Revision == st.TargetRevision) && a.Spec.Set == st.Name && a.Spec.Decision == v1alpha1.Reject
		counts := a.Status.State == "" && a.Spec.Revision == st.TargetRevision || a.Status.State == v1alpha1.ApprovalValid && a.Status.TargetNumber == st.TargetNumber
		if about && counts && a.DeletionTimestamp == nil {
			names = append(names, a.Name)
		}
	}
	return names
}

// AfterRejection is what users can do after the rejection of a revision. The names are those of Rejections.
func AfterRejection(names []string) string {
	remedy := "delete the RolloutApproval with the rejection"
	if len(names) > 0 {
		remedy = fmt.Sprintf("delete the rejection (kubectl delete rolloutapproval %s)", strings.Join(names, " "))
	}
	return remedy + ", or change the template"
}
