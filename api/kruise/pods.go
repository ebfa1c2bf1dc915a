// SPDX-License-Identifier: Apache-2.0

package kruise

import corev1 "k8s.io/api/core/v1"

// Readiness gates, and the conditions of the same names, of pods.
const (
	// InPlaceUpdateReady is False while a pod is updated in place.
	InPlaceUpdateReady corev1.PodConditionType = "InPlaceUpdateReady"
	// KruisePodReady is False while a pod that waits for its hook must not get traffic.
	KruisePodReady corev1.PodConditionType = "KruisePodReady"
	// ReasonStartInPlaceUpdate is the reason of InPlaceUpdateReady while it is False.
	ReasonStartInPlaceUpdate = "StartInPlaceUpdate"
)

// Annotations and labels on pods.
const (
	// InPlaceUpdateState has the last in-place update, as JSON.
	InPlaceUpdateState = "apps.kruise.io/inplace-update-state"
	// InPlaceUpdateStateOld is the older name of apps.kruise.io/inplace-update-state; it is read, and never written.
	InPlaceUpdateStateOld = "inplace-update-state"
	// InPlaceUpdateGrace has, as JSON, an in-place update that OpenKruise has announced, and its grace period. Everynode
	// completes the update and removes the annotation, and never writes it.
	InPlaceUpdateGrace = "apps.kruise.io/inplace-update-grace"
	// InPlaceUpdateGraceOld is the older name of apps.kruise.io/inplace-update-grace.
	InPlaceUpdateGraceOld = "inplace-update-grace"
	// LifecycleState is the label that shows hooks what is about to happen to the pod.
	LifecycleState = "lifecycle.apps.kruise.io/state"
	// LifecycleTimestamp is when that label was set, in RFC 3339.
	LifecycleTimestamp = "lifecycle.apps.kruise.io/timestamp"
)

// Values of LifecycleState.
const (
	LifecyclePreparingDelete = "PreparingDelete"
	LifecycleNormal          = "Normal"
)

// InPlaceState is the value of InPlaceUpdateState.
type InPlaceState struct {
	// Revision is the hash of the revision that the pod was updated to, UpdateTimestamp the time, in RFC 3339.
	Revision        string `json:"revision"`
	UpdateTimestamp string `json:"updateTimestamp"`
	// LastContainerStatuses has the containers whose image was changed, in their previous state.
	LastContainerStatuses map[string]InPlaceContainer `json:"lastContainerStatuses,omitempty"`
	UpdateImages          bool                        `json:"updateImages,omitempty"`
	UpdateResources       bool                        `json:"updateResources,omitempty"`
	// GateOpen is Everynode's addition: the readiness gate was not closed for this change, so nothing is to be opened after it.
	GateOpen bool `json:"gateOpen,omitempty"`
	// LastSidecarStatuses is Everynode's addition: what LastContainerStatuses is, for sidecars among the init containers. OpenKruise does not look
	// for those in the status of a pod, and would wait for them for ever.
	LastSidecarStatuses map[string]InPlaceContainer `json:"lastSidecarStatuses,omitempty"`
	// Restarts is Everynode's addition, too: the containers that the agent of the node restarts, with their IDs before.
	Restarts map[string]string `json:"restarts,omitempty"`
	// The other fields are what OpenKruise has left for later if containers have different launch priorities: these
	// containers are changed after those that have been changed already, once the ones in PreCheckBeforeNext are ready.
	NextContainerImages      map[string]string                      `json:"nextContainerImages,omitempty"`
	NextContainerRefMetadata map[string]InPlaceMetadata             `json:"nextContainerRefMetadata,omitempty"`
	NextContainerResources   map[string]corev1.ResourceRequirements `json:"nextContainerResources,omitempty"`
	PreCheckBeforeNext       *InPlaceCheck                          `json:"preCheckBeforeNext,omitempty"`
}

// InPlaceGrace is the value of InPlaceUpdateGrace: all changes, by container, and the delay.
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

// InPlaceCheck lists the containers that must be ready before the next ones are changed.
type InPlaceCheck struct {
	ContainersRequiredReady []string `json:"containersRequiredReady,omitempty"`
}

// InPlaceContainer is a container before the change.
type InPlaceContainer struct {
	ImageID string `json:"imageID,omitempty"`
	// ContainerID is Everynode's addition; OpenKruise uses only ImageID, which does not change if the new tag has the
	// same digest.
	ContainerID string `json:"containerID,omitempty"`
	// Superseded is Everynode's addition too: an earlier change to another image was in progress, and the node may apply
	// that one first. Without IDs, the change was reverted, and the previous container may stay.
	Superseded bool `json:"superseded,omitempty"`
}

// NotReadyMessage is one entry of the JSON list in the message of KruisePodReady.
type NotReadyMessage struct {
	UserAgent string `json:"userAgent"`
	Key       string `json:"key"`
}
