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
	// InPlaceUpdateState holds, as JSON, what the last change in place was.
	InPlaceUpdateState = "apps.kruise.io/inplace-update-state"
	// InPlaceUpdateStateOld is the older name of apps.kruise.io/inplace-update-state; it is read, and never written.
	InPlaceUpdateStateOld = "inplace-update-state"
	// InPlaceUpdateGrace holds, as JSON, a change in place that OpenKruise has announced, and its grace period. It is gone on with and
	// removed, and never written.
	InPlaceUpdateGrace = "apps.kruise.io/inplace-update-grace"
	// InPlaceUpdateGraceOld is the older name of apps.kruise.io/inplace-update-grace.
	InPlaceUpdateGraceOld = "inplace-update-grace"
	// LifecycleState is the label that tells hooks what is about to happen to the pod.
	LifecycleState = "lifecycle.apps.kruise.io/state"
	// LifecycleTimestamp says when that label was set, in RFC 3339.
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
	UpdateResources       bool                        `json:"updateResources,omitempty"`
	// The rest is what OpenKruise has left for later, when containers have different launch priorities: these come after those that it
	// has changed already, once the ones in PreCheckBeforeNext are ready.
	NextContainerImages      map[string]string                      `json:"nextContainerImages,omitempty"`
	NextContainerRefMetadata map[string]InPlaceMetadata             `json:"nextContainerRefMetadata,omitempty"`
	NextContainerResources   map[string]corev1.ResourceRequirements `json:"nextContainerResources,omitempty"`
	PreCheckBeforeNext       *InPlaceCheck                          `json:"preCheckBeforeNext,omitempty"`
}

// InPlaceGrace is the value of InPlaceUpdateGrace: everything that is to be changed, by container, and after how long.
type InPlaceGrace struct {
	Revision             string                                 `json:"revision"`
	ContainerImages      map[string]string                      `json:"containerImages,omitempty"`
	ContainerRefMetadata map[string]InPlaceMetadata             `json:"containerRefMetadata,omitempty"`
	ContainerResources   map[string]corev1.ResourceRequirements `json:"containerResources,omitempty"`
	// MetaDataPatch is a strategic merge patch of a pod that changes labels and annotations.
	MetaDataPatch []byte `json:"metaDataPatch,omitempty"`
	GraceSeconds  int32  `json:"graceSeconds,omitempty"`
}

// InPlaceMetadata are labels and annotations that environment variables of a container read.
type InPlaceMetadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// InPlaceCheck says which containers have to be ready before the next ones are changed.
type InPlaceCheck struct {
	ContainersRequiredReady []string `json:"containersRequiredReady,omitempty"`
}

// InPlaceContainer is a container before it was changed.
type InPlaceContainer struct {
	ImageID string `json:"imageID,omitempty"`
	// ContainerID is ours; OpenKruise looks at ImageID alone, which stays the same when the new tag has the same digest.
	ContainerID string `json:"containerID,omitempty"`
	// Superseded is ours, too: an earlier change, to another image, was under way, and the node may come to that one first. Without IDs
	// the change was undone, and the container from before may stay.
	Superseded bool `json:"superseded,omitempty"`
}

// NotReadyMessage is one entry of the JSON list in the message of KruisePodReady.
type NotReadyMessage struct {
	UserAgent string `json:"userAgent"`
	Key       string `json:"key"`
}
