// SPDX-License-Identifier: Apache-2.0

package placement

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TargetNode returns the name of the node that a pod runs on, or of the node that the pod was created for and on which
// it is not scheduled yet. It is "" if the pod was not created for one node. The required node affinity of a daemon pod
// names its node by the field metadata.name.
func TargetNode(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil {
		return ""
	}
	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return ""
	}
	for _, term := range required.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key != metav1.ObjectNameField || field.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			// As in upstream, the first such field decides: if it names several nodes, the pod has no target node.
			if len(field.Values) != 1 {
				return ""
			}
			return field.Values[0]
		}
	}
	return ""
}
