// SPDX-License-Identifier: Apache-2.0

package component

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"everynode.dev/everynode/localplane/internal/home"
)

func (in Inputs) auditPolicyFile() string { return in.pki("audit.json") }

// audits reports whether there is an audit log.
func (in Inputs) audits() bool { return in.AuditWrites || len(in.Audit) > 0 }

// auditFlags returns the flags for an audit log with responses; it has request bodies only for deletes and patches.
func (in Inputs) auditFlags() []string {
	if !in.audits() {
		return nil
	}
	const size = "4000" // megabytes; a new file would begin after that
	return []string{"--audit-policy-file=" + in.auditPolicyFile(), "--audit-log-path=" + in.Home.AuditLog(), "--audit-log-maxsize=" + size}
}

func writeAuditPolicy(in Inputs) error {
	if !in.audits() {
		return nil
	}
	rules := in.writeRules()
	if len(in.Audit) > 0 {
		rules = append(rules, auditv1.PolicyRule{Level: auditv1.LevelMetadata, Users: in.Audit})
	}
	data, err := json.Marshal(auditv1.Policy{
		TypeMeta:   metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		OmitStages: []auditv1.Stage{auditv1.StageRequestReceived},
		Rules:      append(rules, auditv1.PolicyRule{Level: auditv1.LevelNone}),
	})
	if err != nil {
		return fmt.Errorf("encoding the audit policy: %w", err)
	}
	return home.WriteFile(in.auditPolicyFile(), data)
}

// writeRules returns the audit rules for writes, if requested; the first matching rule applies. Writes of kubelets and
// the scheduler are not logged, because they would be most of the log.
func (in Inputs) writeRules() []auditv1.PolicyRule {
	if !in.AuditWrites {
		return nil
	}
	const none, metadata, request = auditv1.LevelNone, auditv1.LevelMetadata, auditv1.LevelRequest
	change, of := []string{"update", "patch", "delete", "deletecollection"}, func(group string, resources ...string) []auditv1.GroupResources {
		return []auditv1.GroupResources{{Group: group, Resources: resources}}
	}
	all := append([]string{"create"}, change...)
	return []auditv1.PolicyRule{
		{Level: none, UserGroups: []string{"system:nodes"}, Verbs: all},
		{Level: none, Users: []string{"system:kube-scheduler"}, Verbs: all},
		{Level: request, Verbs: change, Resources: of("", "pods", "pods/status", "pods/resize")},
		{Level: metadata, Verbs: all, Resources: of("", "pods")},
		{Level: metadata, Verbs: all, Resources: of("apps", "daemonsets", "daemonsets/status", "controllerrevisions")},
		{Level: metadata, Verbs: all, Resources: of("apps.kruise.io", "daemonsets", "daemonsets/status")},
	}
}
