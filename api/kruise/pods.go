// SPDX-License-Identifier: Apache-2.0

package kruise

import corev1 "k8s.io/api/core/v1"

// Readiness gates, and the conditions of the same names, on pods.
const (
	// InPlaceUpdateReady is False while a pod is changed in place.
	InPlaceUpdateReady corev1.PodConditionType = "InPlaceUpdateReady"
	// KruisePodReady is False while a pod that waits for its hook is to get no traffic.
	KruisePodReady corev1.PodConditionType = "KruisePodReady"
	// ReasonStartInPlaceUpdate is the reason of InPlaceUpdateReady while it is False.
	ReasonStartInPlaceUpdate = "StartInPlaceUpdate"
)

// Annotations and labels on pods.
const (
	// InPlaceUpdateState holds, as JSON, what the last change in place was; see InPlaceState.
	InPlaceUpdateState = "apps.kruise.io/inplace-update-state"
	// InPlaceUpdateStateOld is the older name of InPlaceUpdateState.
	InPlaceUpdateStateOld = "inplace-update-state"
	// LifecycleState is the label that tells hooks what is about to happen to the pod.
	LifecycleState = "lifecycle.apps.kruise.io/state"
	// LifecycleTimestamp says when LifecycleState was set, in RFC 3339.
	LifecycleTimestamp = "lifecycle.apps.kruise.io/timestamp"
)

// Values of LifecycleState.
const (
	LifecyclePreparingDelete = "PreparingDelete"
	LifecycleNormal          = "Normal"
)

// InPlaceState is the value of InPlaceUpdateState.
type InPlaceState struct {
	// Revision is the hash of the revision that the pod was changed to, UpdateTimestamp when, in RFC 3339.
	Revision        string `json:"revision"`
	UpdateTimestamp string `json:"updateTimestamp"`
	// LastContainerStatuses are the containers whose image was changed, as they were before.
	LastContainerStatuses map[string]InPlaceContainer `json:"lastContainerStatuses,omitempty"`
	UpdateImages          bool                        `json:"updateImages,omitempty"`
}

// InPlaceContainer is a container before it was changed.
type InPlaceContainer struct {
	ImageID string `json:"imageID,omitempty"`
	// ContainerID is ours; OpenKruise looks at ImageID alone, which stays the same when the new tag has the same digest.
	ContainerID string `json:"containerID,omitempty"`
}

// NotReadyMessage is one entry of the JSON list in the message of KruisePodReady.
type NotReadyMessage struct {
	UserAgent string `json:"userAgent"`
	Key       string `json:"key"`
}
