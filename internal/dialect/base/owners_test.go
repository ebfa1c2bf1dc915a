// SPDX-License-Identifier: Apache-2.0

package base_test

import (
	"slices"
	"testing"

	"everynode.dev/everynode/internal/dialect/base"
)

// TestTemplateOwners: who may write the pod template of a DaemonSet with OnDelete again.
func TestTemplateOwners(t *testing.T) {
	entry := func(manager, operation string, fields map[string]any) any {
		return map[string]any{"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
	}
	template := map[string]any{"f:spec": map[string]any{"f:template": map[string]any{"f:spec": map[string]any{}}}}
	others := map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{}}, "f:spec": map[string]any{"f:updateStrategy": map[string]any{}}}
	status := map[string]any{"f:status": map[string]any{}}
	for name, c := range map[string]struct {
		fields any
		want   []string
	}{
		"no entry":                   {nil, nil},
		"a list of nothing":          {[]any{}, nil},
		"what makes no sense":        {"x", nil},
		"commands of a person":       {[]any{entry("kubectl-create", "Update", template), entry("kubectl-set", "Update", template), entry("kubectl-edit", "Update", template)}, nil},
		"Everynode":                  {[]any{entry("everynode-manager", "Update", template)}, nil},
		"a name that is applied":     {[]any{entry("kubectl", "Apply", template)}, []string{"kubectl"}},
		"our name that is applied":   {[]any{entry("everynode-manager", "Apply", template)}, []string{"everynode-manager"}},
		"kubectl apply":              {[]any{entry("kubectl-client-side-apply", "Update", template)}, []string{"kubectl-client-side-apply"}},
		"an operator, and a person":  {[]any{entry("operator", "Update", template), entry("kubectl-set", "Update", template)}, []string{"operator"}},
		"two, one of them twice":     {[]any{entry("helm", "Update", template), entry("argocd-controller", "Apply", template), entry("helm", "Apply", template)}, []string{"argocd-controller", "helm"}},
		"only other fields":          {[]any{entry("argocd-controller", "Apply", others), entry("kube-controller-manager", "Update", status)}, nil},
		"a manager without a name":   {[]any{entry("", "Update", template)}, []string{""}},
		"an entry without operation": {[]any{map[string]any{"manager": "kubectl-set", "fieldsV1": template}}, []string{"kubectl-set"}},
	} {
		for _, kind := range []string{"OnDelete", "RollingUpdate"} {
			obj := map[string]any{
				"metadata": map[string]any{"name": "ds", "managedFields": c.fields},
				"spec":     map[string]any{"updateStrategy": map[string]any{"type": kind}, "template": map[string]any{"spec": map[string]any{}}},
			}
			want := c.want
			if kind == "RollingUpdate" {
				want = nil // nothing reads it
			}
			if got := (&base.Reader{}).DaemonSet(obj).TemplateOwners; !slices.Equal(got, want) {
				t.Errorf("%s, %s: %q, want %q", name, kind, got, want)
			}
		}
	}
}
