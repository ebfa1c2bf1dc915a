// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
)

// denial is a ValidatingAdmissionPolicy that denies statuses of a resource in the namespace of the stage, unless an expression is true.
func (s *stage) denial(resource, expression string) string {
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s-%[2]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [everynode.dev], apiVersions: [v1alpha1], operations: [UPDATE], resources: [%[2]s/status]}]
  validations: [{expression: %[3]q, message: this status is protected}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s-%[2]s}
spec:
  policyName: %[1]s-%[2]s
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}
`, s.Name, resource, expression)
}

// TestAnApprovalThatIsRefused: an approval has no effect while its state can be stored neither in the approval nor in the policy, also under the next manager. When one of
// the two can be written, the rollout continues.
func TestAnApprovalThatIsRefused(t *testing.T) {
	s := newStage(t, native(), smallNodes)
	s.govern(`
  waves:
  - {name: canary, nodes: {count: 1}, soak: 2s, after: [{type: Approval, remindAfter: 10s}]}
`)
	s.update(harness.Image2)
	s.await(v1alpha1.PhaseWaitingForApproval)
	s.Apply(s.denial(v1alpha1.ResourceApprovals, "false"))
	allow := s.Apply(s.denial(v1alpha1.ResourcePolicies, "!has(object.status.decisions)"))
	s.InForce("this status is protected", "", "patch", "rolloutpolicy", agents, "--subresource=status", "--type=merge", "--dry-run=server", "-p", `{"status":{"decisions":[{"uid":"x","state":"Void"}]}}`)
	s.plugin("approve", s.dialect.argument())
	s.Wait("an event reminds of the approval", reminds("20s"))
	s.Cluster.Kill(t, harness.ManagerComponent)
	s.restart()
	s.Wait("the next manager reminds of it too", reminds("50s"))
	if h := s.soFar(); len(h.began) != 1 {
		t.Errorf("with an approval that is not stored, these nodes have begun: %v", h.beganAfter(0))
	}
	if got := s.policy().Status.Decisions; len(got) != 0 {
		t.Errorf("the policy remembers %+v", got)
	}
	allow()
	h := s.finish()
	for _, wrong := range h.judge([]step{{"canary", s.Nodes[:1], 0}, {"remaining", s.Nodes[1:], 0}}) {
		t.Error(wrong)
	}
	if got := s.policy().Status.Decisions; len(got) != 1 || got[0].State != v1alpha1.ApprovalValid || got[0].Attempt != 1 {
		t.Errorf("the policy remembers %+v", got)
	}
}
