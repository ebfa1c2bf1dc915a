// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	nodeAffinityKey = "nodeAffinity"
	requiredKey     = "requiredDuringSchedulingIgnoredDuringExecution"
	termsKey        = "nodeSelectorTerms"
)

// pinned returns affinity with its required node terms replaced by the one that selects node. The terms of the template
// have done their work when the node was chosen; if they stayed, the scheduler would take any node that matches one of
// them, for terms are alternatives. Preferred terms and pod affinity stay. The maps on the way to the terms are copied,
// the original is not changed.
func pinned(affinity map[string]any, node string) map[string]any {
	nodeAffinity := object(affinity, nodeAffinityKey)
	required := with(object(nodeAffinity, requiredKey), termsKey, []any{nodeTerm(node)})
	return with(affinity, nodeAffinityKey, with(nodeAffinity, requiredKey, required))
}

func nodeTerm(node string) map[string]any {
	return map[string]any{"matchFields": []any{map[string]any{
		"key":      metav1.ObjectNameField,
		"operator": string(corev1.NodeSelectorOpIn),
		"values":   []any{node},
	}}}
}

// with is a copy of m in which key has value.
func with(m map[string]any, key string, value any) map[string]any {
	copied := make(map[string]any, len(m)+1)
	maps.Copy(copied, m)
	copied[key] = value
	return copied
}
