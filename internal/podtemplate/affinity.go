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

// pinned returns affinity with its required node terms replaced by one that selects node. The terms of the template
// have already been evaluated when the node was chosen. Terms are alternatives, so if they stayed, the scheduler could
// choose any other node that matches one of them. Preferred terms and pod affinity stay. The maps on the path to the
// terms are copied; the original is not changed.
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

// with returns a copy of m in which key has value.
func with(m map[string]any, key string, value any) map[string]any {
	copied := make(map[string]any, len(m)+1)
	maps.Copy(copied, m)
	copied[key] = value
	return copied
}
