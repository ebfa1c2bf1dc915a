// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// holds reports whether the preDelete hook of this version of the set holds the pod: the pod has one of the labels or
// finalizers of the hook.
func (a *Advanced) holds(pod *corev1.Pod) bool {
	if a.hook == nil {
		return false
	}
	for key, value := range a.hook.LabelsHandler {
		if has, there := pod.Labels[key]; there && has == value {
			return true
		}
	}
	return slices.ContainsFunc(a.hook.FinalizersHandler, func(name string) bool { return slices.Contains(pod.Finalizers, name) })
}

// judgeHook reports a pod that was deleted while its hook held it. The pod of a deleted node is not held.
func (w *world) judgeHook(event Event, old, pod *corev1.Pod) {
	ends := old.DeletionTimestamp == nil && (event.Type == watch.Deleted || pod.DeletionTimestamp != nil)
	node := NodeOf(pod)
	if !ends || w.rules.Excused[pod.UID] || w.nodes[node] == nil {
		return
	}
	if !slices.ContainsFunc(w.limits.openAt(w.decided(event, old, pod)), func(version *Advanced) bool { return !version.holds(old) }) {
		w.violate(Hook, event, fmt.Sprintf("pod %s on node %s was deleted, and its hook had not released it", pod.Name, node))
	}
}
