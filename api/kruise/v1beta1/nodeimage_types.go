// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeImage has the name of a node, and says which images the node is to pull and how far it is. It comes and goes with the
// node.
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

	// Spec is what is wanted.
	// +optional
	Spec NodeImageSpec `json:"spec,omitempty"`

	// Status is how far the node is. It is written by the agent of the node.
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

// NodeImageSpec is what is wanted.
type NodeImageSpec struct {
	// Images are the images to pull, by their names without tags and digests. There can be 256 of them.
	// +optional
	Images map[string]ImageSpec `json:"images,omitempty"`
}

// ImageSpec says which tags of one image are pulled.
type ImageSpec struct {
	// PullSecrets are secrets for all tags of the image. Everynode writes the secrets of each tag instead, and reads these
	// too.
	// +optional
	PullSecrets []ReferenceObject `json:"pullSecrets,omitempty"`

	// Tags are the tags to pull, each once.
	Tags []ImageTagSpec `json:"tags"`

	// SandboxConfig is handed to the container runtime together with the image.
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

	// Mode says how the copy of the secret is kept. Everynode keeps what is there, and does not need it.
	// +optional
	Mode string `json:"mode,omitempty"`
}

// ImageTagSpec says how one tag is pulled.
type ImageTagSpec struct {
	// Tag is the tag, or the digest.
	Tag string `json:"tag"`

	// CreatedAt is when the node was told to pull the tag.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`

	// PullPolicy limits the time and the attempts.
	// +optional
	PullPolicy *ImageTagPullPolicy `json:"pullPolicy,omitempty"`

	// OwnerReferences are the jobs that want the tag. When the last of them is gone, the tag goes from here; the image
	// stays on the node.
	// +optional
	OwnerReferences []corev1.ObjectReference `json:"ownerReferences,omitempty"`

	// Version is raised to have the tag pulled once more. The status tells for which version it is.
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

	// BackoffLimit is how often the node tries again before it gives up. The default is 3.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// TTLSecondsAfterFinished is how long the tag stays here after the node is done with it. Without it, it stays as long
	// as somebody wants it.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// ActiveDeadlineSeconds is how long the node may take for all attempts together, counted from createdAt. Without it there
	// is no such limit.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
}

// NodeImageStatus is how far the node is.
type NodeImageStatus struct {
	// Desired is the number of tags that the node is to have.
	Desired int32 `json:"desired"`

	// Succeeded is the number of tags that are there.
	// +optional
	Succeeded int32 `json:"succeeded"`

	// Failed is the number of tags that the node gave up.
	// +optional
	Failed int32 `json:"failed"`

	// Pulling is the number of tags that are being pulled.
	// +optional
	Pulling int32 `json:"pulling"`

	// Waiting is the number of tags whose pull has not begun.
	// +optional
	Waiting int32 `json:"waiting"`

	// ImageStatuses is how far each tag is, by the names of spec.images.
	// +optional
	ImageStatuses map[string]ImageStatus `json:"imageStatuses,omitempty"`

	// FirstSyncStatus is how the first round ended: set once when for the first time the node was done with everything that
	// it was to pull.
	// +optional
	FirstSyncStatus *SyncStatus `json:"firstSyncStatus,omitempty"`
}

// ImageStatus is how far the tags of one image are.
type ImageStatus struct {
	// Tags is how far each tag is.
	Tags []ImageTagStatus `json:"tags"`
}

// ImageTagStatus is how far one tag is.
type ImageTagStatus struct {
	// Tag is the tag, or the digest.
	Tag string `json:"tag"`

	// Phase is Waiting, Pulling, Succeeded or Failed.
	Phase ImagePullPhase `json:"phase"`

	// Progress is how much of it is there, in percent. A new attempt begins at 0 again.
	// +optional
	Progress int32 `json:"progress,omitempty"`

	// StartTime is when the agent of the node took the tag up.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// CompletionTime is when the tag was there, or given up.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// Version is the version of the tag in the spec that this is about.
	// +optional
	Version int64 `json:"version,omitempty"`

	// ImageID is the ID of the image that is there, as the container runtime gives it.
	// +optional
	ImageID string `json:"imageID,omitempty"`

	// Message says why a pull failed, or waits.
	// +optional
	Message string `json:"message,omitempty"`
}

// ImagePullPhase says how far a tag is.
type ImagePullPhase string

// The phases.
const (
	// ImagePhaseWaiting has not begun.
	ImagePhaseWaiting ImagePullPhase = "Waiting"
	// ImagePhasePulling has begun, and is not done.
	ImagePhasePulling ImagePullPhase = "Pulling"
	// ImagePhaseSucceeded is there.
	ImagePhaseSucceeded ImagePullPhase = "Succeeded"
	// ImagePhaseFailed is given up.
	ImagePhaseFailed ImagePullPhase = "Failed"
)

// SyncStatus is how the first round ended.
type SyncStatus struct {
	// SyncAt is when.
	// +optional
	SyncAt metav1.Time `json:"syncAt,omitempty"`

	// Status is Succeeded (every tag is there) or Failed.
	// +optional
	Status SyncStatusPhase `json:"status,omitempty"`

	// Message says what failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// SyncStatusPhase says how the first round ended.
type SyncStatusPhase string

// The ends of the first round.
const (
	// SyncStatusSucceeded means that every tag is there.
	SyncStatusSucceeded SyncStatusPhase = "Succeeded"
	// SyncStatusFailed means that some tag was given up.
	SyncStatusFailed SyncStatusPhase = "Failed"
)
