// SPDX-License-Identifier: Apache-2.0

package base

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldManager is the field manager of changes that the manager makes to the template of a set.
const FieldManager = "everynode-manager"

// people are the field managers of interactive commands: each writes once, and does not revert later changes
// by others. kubectl apply is not among them, because it applies a file, which may be applied again. It is
// not known how other managers behave, so they count as owners.
func people() []string {
	return []string{
		"kubectl", "kubectl-create", "kubectl-edit", "kubectl-patch", "kubectl-replace", "kubectl-rollout", "kubectl-set", "kubectl-everynode",
	}
}

// templateOwners are the field managers that own a part of the pod template of an object and may write it
// again, sorted: all except Everynode itself and interactive commands. A manager that applies (server-side
// apply) is always one, whatever its name.
func templateOwners(obj map[string]any) []string {
	metadata, _ := obj["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	var owners []string
	for _, entry := range entries {
		e, _ := entry.(map[string]any)
		fields, _ := e["fieldsV1"].(map[string]any)
		spec, _ := fields["f:spec"].(map[string]any)
		manager, _ := e["manager"].(string)
		once := e["operation"] == string(metav1.ManagedFieldsOperationUpdate) && (manager == FieldManager || slices.Contains(people(), manager))
		if _, owns := spec["f:template"]; owns && !once {
			owners = append(owners, manager)
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}
