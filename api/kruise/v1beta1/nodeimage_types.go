// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeImage has the name of a node, the images that the node must pull, and their state. It is created and deleted with
// the node.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="everynode.dev/part-of=everynode"
// +kubebuilder:printcolumn:name="DESIRED",type="integer",JSONPath=".status.desired",description="Images that the node is to have."
// +kubebuilder:printcolumn:name="PULLING",type="integer",JSONPath=".status.pulling",description="Images that are being pulled."
// +kubebuilder:printcolumn:name="SUCCEED",type="integer",JSONPath=".status.succeeded",description="Images that are there."
// +kubebuilder:printcolumn:name="FAILED",type="integer",JSONPath=".status.failed",description="Images that the node gave up."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="Time since the object was created."
type NodeImage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	Spec NodeImageSpec `json:"spec,omitempty"`

	// Status is the observed state. The agent of the node writes it.
	// +optional
	Status NodeImageStatus `json:"status,omitempty"`
}

// NodeImageList is a list of node images.
//
// +kubebuilder:object:root=true
type NodeImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeImage `json:"items"`
}

// NodeImageSpec is the desired state.
type NodeImageSpec struct {
	// Images are the images to pull, by their names without tags and digests. There can be 256 of them.
	// +optional
	Images map[string]ImageSpec `json:"images,omitempty"`
}

// ImageSpec has the tags of one image to pull.
type ImageSpec struct {
	// PullSecrets are secrets for all tags of the image. Everynode reads them, but writes the secrets of each tag
	// instead.
	// +optional
	PullSecrets []ReferenceObject `json:"pullSecrets,omitempty"`

	// Tags are the tags to pull, each once.
	Tags []ImageTagSpec `json:"tags"`

	// SandboxConfig is passed to the container runtime with the image.
	// +optional
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`
}

// ReferenceObject names a secret.
type ReferenceObject struct {
	// Namespace is where the secret is.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Name is the name of the secret.
	// +optional
	Name string `json:"name,omitempty"`

	// Mode is how the copy of the secret is kept. Everynode does not use it, and does not change it.
	// +optional
	Mode string `json:"mode,omitempty"`
}

// ImageTagSpec defines how one tag is pulled.
type ImageTagSpec struct {
	// Tag is the tag, or the digest.
	Tag string `json:"tag"`

	// CreatedAt is when the pull of the tag was requested.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`

	// PullPolicy limits the time and the attempts.
	// +optional
	PullPolicy *ImageTagPullPolicy `json:"pullPolicy,omitempty"`

	// OwnerReferences are the jobs that need the tag. When the last of them is deleted, the tag is removed from here;
	// the image stays on the node.
	// +optional
	OwnerReferences []corev1.ObjectReference `json:"ownerReferences,omitempty"`

	// Version is raised to pull the tag again. The status has the version that it is for.
	// +optional
	Version int64 `json:"version,omitempty"`

	// ImagePullPolicy is IfNotPresent or Always. The default is IfNotPresent.
	// +optional
	ImagePullPolicy ImagePullPolicy `json:"imagePullPolicy,omitempty"`

	// PullSecrets are the secrets with which the tag is pulled.
	// +optional
	PullSecrets []ReferenceObject `json:"pullSecrets,omitempty"`
}

// ImageTagPullPolicy limits the time and the attempts of one tag.
type ImageTagPullPolicy struct {
	// TimeoutSeconds is how long one attempt may take. The default is 600.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// BackoffLimit is the number of retries on the node. The default is 3.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// TTLSecondsAfterFinished is how long the tag stays here after the pull has ended. Without it, it stays as long as a
	// job needs it.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// ActiveDeadlineSeconds is how long the node may take for all attempts together, counted from createdAt. Without it
	// there is no limit.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
}

// NodeImageStatus is the observed state.
type NodeImageStatus struct {
	// Desired is the number of tags that the node must have.
	Desired int32 `json:"desired"`

	// Succeeded is the number of tags that are on the node.
	// +optional
	Succeeded int32 `json:"succeeded"`

	// Failed is the number of tags whose pull has failed.
	// +optional
	Failed int32 `json:"failed"`

	// Pulling is the number of tags that are being pulled.
	// +optional
	Pulling int32 `json:"pulling"`

	// Waiting is the number of tags whose pull has not started.
	// +optional
	Waiting int32 `json:"waiting"`

	// ImageStatuses has the state of each tag, by the names in spec.images.
	// +optional
	ImageStatuses map[string]ImageStatus `json:"imageStatuses,omitempty"`

	// FirstSyncStatus is the result of the first sync: it is set once, when all requested pulls have ended for the first
	// time.
	// +optional
	FirstSyncStatus *SyncStatus `json:"firstSyncStatus,omitempty"`
}

// ImageStatus is the state of the tags of one image.
type ImageStatus struct {
	// Tags has the state of each tag.
	Tags []ImageTagStatus `json:"tags"`
}

// ImageTagStatus is the state of one tag.
type ImageTagStatus struct {
	// Tag is the tag, or the digest.
	Tag string `json:"tag"`

	// Phase is Waiting, Pulling, Succeeded or Failed.
	Phase ImagePullPhase `json:"phase"`

	// Progress is the progress of the pull in percent. A new attempt starts at 0 again.
	// +optional
	Progress int32 `json:"progress,omitempty"`

	// StartTime is when the agent of the node started to handle the tag.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// CompletionTime is when the pull succeeded or failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// Version is the version of the tag in the spec that this status is for.
	// +optional
	Version int64 `json:"version,omitempty"`

	// ImageID is the ID of the image in the container runtime.
	// +optional
	ImageID string `json:"imageID,omitempty"`

	// Message is the reason why a pull failed, or waits.
	// +optional
	Message string `json:"message,omitempty"`
}

// ImagePullPhase is the phase of a tag.
type ImagePullPhase string

// The phases.
const (
	// ImagePhaseWaiting has not started.
	ImagePhaseWaiting ImagePullPhase = "Waiting"
	// ImagePhasePulling has started and not ended.
	ImagePhasePulling ImagePullPhase = "Pulling"
	// ImagePhaseSucceeded is on the node.
	ImagePhaseSucceeded ImagePullPhase = "Succeeded"
	// ImagePhaseFailed has failed.
	ImagePhaseFailed ImagePullPhase = "Failed"
)

// SyncStatus is the result of the first sync.
type SyncStatus struct {
	// SyncAt is the time of the result.
	// +optional
	SyncAt metav1.Time `json:"syncAt,omitempty"`

	// Status is Succeeded (all pulls have succeeded) or Failed.
	// +optional
	Status SyncStatusPhase `json:"status,omitempty"`

	// Message describes the failure.
	// +optional
	Message string `json:"message,omitempty"`
}

// SyncStatusPhase is the result of the first sync.
type SyncStatusPhase string

// The results of the first sync.
const (
	// SyncStatusSucceeded means that all pulls have succeeded.
	SyncStatusSucceeded SyncStatusPhase = "Succeeded"
	// SyncStatusFailed means that a pull has failed.
	SyncStatusFailed SyncStatusPhase = "Failed"
)
