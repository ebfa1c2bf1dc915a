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

// auditFlags have the API server keep a log of requests, and what was answered, without what was sent.
func (in Inputs) auditFlags() []string {
	if len(in.Audit) == 0 {
		return nil
	}
	return []string{"--audit-policy-file=" + in.auditPolicyFile(), "--audit-log-path=" + in.Home.AuditLog()}
}

func writeAuditPolicy(in Inputs) error {
	if len(in.Audit) == 0 {
		return nil
	}
	data, err := json.Marshal(auditv1.Policy{
		TypeMeta:   metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		OmitStages: []auditv1.Stage{auditv1.StageRequestReceived},
		Rules:      []auditv1.PolicyRule{{Level: auditv1.LevelMetadata, Users: in.Audit}, {Level: auditv1.LevelNone}},
	})
	if err != nil {
		return fmt.Errorf("encoding the audit policy: %w", err)
	}
	return home.WriteFile(in.auditPolicyFile(), data)
}
