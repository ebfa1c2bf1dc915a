// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
)

// changing reports whether the pod is being changed in place: it is marked, or it was changed with its gate open and its node has not recreated all
// containers that differ.
func changing(pod *corev1.Pod) bool {
	if marked(pod) {
		return true
	}
	state, open := changedOpenly(pod)
	if !open {
		return false
	}
	for _, status := range pod.Status.ContainerStatuses {
		before, differs := state.LastContainerStatuses[status.Name]
		if differs && before.ContainerID == status.ContainerID && imageOf(pod, status.Name) != status.Image {
			return true
		}
	}
	return false
}

// changedOpenly reports whether the last change in place left the readiness gate open, and the state that the change wrote.
func changedOpenly(pod *corev1.Pod) (kruise.InPlaceState, bool) {
	var state kruise.InPlaceState
	text := pod.Annotations[kruise.InPlaceUpdateState]
	if text == "" || json.Unmarshal([]byte(text), &state) != nil {
		return state, false
	}
	return state, state.GateOpen
}

func imageOf(pod *corev1.Pod, name string) string {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return pod.Spec.Containers[i].Image
		}
	}
	return ""
}

// closesGate reports whether the set wants a pod not to be ready before and during a change in place.
func closesGate(set *appsv1.DaemonSet) bool {
	grace := set.Annotations[everynode.InPlaceGrace]
	return set.Annotations[everynode.InPlaceGate] == "true" || grace != "" && grace != "0"
}

// marked reports whether a gate keeps the pod from being ready for a change in place.
func marked(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kruise.InPlaceUpdateReady {
			return condition.Status != corev1.ConditionTrue
		}
	}
	return false
}

// judgeInPlace reports a change of a pod that is in use although its set closes the gate, and a pod whose gate is opened before the node runs the change.
func (w *world) judgeInPlace(event Event, old, pod *corev1.Pod) {
	state, open := changedOpenly(pod)
	if open = open && state.Revision == hashOf(pod); hashOf(old) != hashOf(pod) && !marked(pod) && (!open || closesGate(w.set)) { // not that of an earlier change
		w.violate(InPlace, event, fmt.Sprintf("pod %s was changed while it was in use", pod.Name))
	}
	if !marked(old) || marked(pod) || pod.DeletionTimestamp != nil {
		return
	}
	for _, status := range pod.Status.ContainerStatuses {
		for _, container := range pod.Spec.Containers {
			if container.Name == status.Name && container.Image != status.Image {
				w.violate(InPlace, event, fmt.Sprintf("pod %s was put into use while container %s runs %s instead of %s",
					pod.Name, status.Name, status.Image, container.Image))
			}
		}
	}
}

// changedSince is when a pod that was changed with its gate open can have become ready at the earliest: a kubelet that restarts a container between two
// reports leaves the condition Ready as it was.
func changedSince(pod *corev1.Pod) time.Time {
	state, open := changedOpenly(pod)
	if !open {
		return time.Time{}
	}
	since, _ := time.Parse(time.RFC3339, state.UpdateTimestamp)
	for _, status := range pod.Status.ContainerStatuses {
		if _, differs := state.LastContainerStatuses[status.Name]; differs && status.State.Running != nil && status.State.Running.StartedAt.After(since) {
			since = status.State.Running.StartedAt.Time
		}
	}
	return since
}
