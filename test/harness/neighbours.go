// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Apply applies cluster-wide objects, and removes them at the end of the test at the latest.
func (s *Space) Apply(manifest string) (remove func()) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if out, err := s.Cluster.Kubectl(s.t.Context(), "apply", "-f", file); err != nil {
		s.t.Fatalf("applying:\n%s\n%v: %s", manifest, err, out)
	}
	remove = sync.OnceFunc(func() {
		if out, err := s.Cluster.Kubectl(context.WithoutCancel(s.t.Context()), "delete", "-f", file); err != nil {
			s.t.Errorf("deleting what was applied: %v: %s", err, out)
		}
	})
	s.t.Cleanup(remove)
	return remove
}

// PodPolicy returns a ValidatingAdmissionPolicy for pods of the space: an operation (in capitals) is denied with the
// message "this one is protected" if the expression is false.
func (s *Space) PodPolicy(operation, expression string) string {
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [%[2]s], resources: [pods]}]
  validations: [{expression: %[3]q, message: this one is protected}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}
`, s.Name, operation, expression)
}

// InForce repeats a command until it is denied with this message: the API server needs a moment to use policies and
// webhooks.
func (s *Space) InForce(words, manifest string, args ...string) {
	s.t.Helper()
	s.Poll("the API server knows the policy", func() error {
		if out, err := s.KubectlWith(manifest, args...); err == nil || !strings.Contains(out, words) {
			return fmt.Errorf("it is not refused with %q: %s", words, out)
		}
		return nil
	})
}
