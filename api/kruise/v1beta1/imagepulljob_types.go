// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ImagePullJob pulls one image on many nodes, a few at a time, so that it is there before a pod needs it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="everynode.dev/part-of=everynode"
// +kubebuilder:printcolumn:name="TOTAL",type="integer",JSONPath=".status.desired",description="Nodes that the job is about."
// +kubebuilder:printcolumn:name="ACTIVE",type="integer",JSONPath=".status.active",description="Nodes that pull now."
// +kubebuilder:printcolumn:name="SUCCEED",type="integer",JSONPath=".status.succeeded",description="Nodes that have the image."
// +kubebuilder:printcolumn:name="FAILED",type="integer",JSONPath=".status.failed",description="Nodes that gave up."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="Time since the object was created."
type ImagePullJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted.
	// +optional
	Spec ImagePullJobSpec `json:"spec,omitempty"`

	// Status is what was seen last. It is written by the controller only.
	// +optional
	Status ImagePullJobStatus `json:"status,omitempty"`
}

// ImagePullJobList is a list of image pull jobs.
//
// +kubebuilder:object:root=true
type ImagePullJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ImagePullJob `json:"items"`
}

// ImagePullJobSpec is what is wanted.
type ImagePullJobSpec struct {
	// Image is what is pulled, written as in a container: a name with a tag, or with a digest. Without either the tag is
	// latest.
	Image string `json:"image"`

	// PullSecrets are the names of secrets in the namespace of the job with which the image is pulled. They cannot be
	// changed. They are used only if the configuration of the manager allows the namespace to do so.
	// +optional
	PullSecrets []string `json:"pullSecrets,omitempty"`

	// Selector chooses nodes, by name or by label. It cannot be set together with podSelector. Without either the job is
	// about all nodes.
	// +optional
	Selector *ImagePullJobNodeSelector `json:"selector,omitempty"`

	// PodSelector chooses the nodes on which pods with these labels run, in the namespace of the job. It cannot be set
	// together with selector.
	// +optional
	PodSelector *ImagePullJobPodSelector `json:"podSelector,omitempty"`

	// Parallelism is how many nodes pull at once, a whole number. At 0 no further node begins. The default is 1.
	// +optional
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`

	// PullPolicy limits the time and the attempts of one node.
	// +optional
	PullPolicy *PullPolicy `json:"pullPolicy,omitempty"`

	// CompletionPolicy says when the job ends.
	CompletionPolicy CompletionPolicy `json:"completionPolicy"`

	// SandboxConfig is handed to the container runtime together with the image.
	// +optional
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`

	// ImagePullPolicy is IfNotPresent (a node that has the image has nothing to do) or Always (every node asks the registry
	// whether the tag is another image now). The default is IfNotPresent.
	// +optional
	ImagePullPolicy ImagePullPolicy `json:"imagePullPolicy,omitempty"`
}

// ImagePullPolicy says what a node does that has the image already.
type ImagePullPolicy string

// The policies.
const (
	// PullAlways asks the registry in any case.
	PullAlways ImagePullPolicy = "Always"
	// PullIfNotPresent is satisfied with what is there.
	PullIfNotPresent ImagePullPolicy = "IfNotPresent"
)

// SandboxConfig is handed to the container runtime together with the image.
type SandboxConfig struct {
	// Labels are those of the sandbox that the image is said to be pulled for.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations are those of the sandbox that the image is said to be pulled for.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// PullPolicy limits the time and the attempts of one node.
type PullPolicy struct {
	// TimeoutSeconds is how long one attempt may take. The default is 600.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// BackoffLimit is how often a node tries again before it gives up. The default is 3.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
}

// CompletionPolicyType says whether a job ends.
type CompletionPolicyType string

// The completion policies.
const (
	// CompletionAlways ends the job once every node has the image or gave up.
	CompletionAlways CompletionPolicyType = "Always"
	// CompletionNever lets the job go on, for nodes that are added later.
	CompletionNever CompletionPolicyType = "Never"
)

// CompletionPolicy says when a job ends.
type CompletionPolicy struct {
	// Type is Always (the job ends once every node has the image or gave up) or Never (it goes on, for nodes that are added
	// later). The default is Always.
	// +optional
	Type CompletionPolicyType `json:"type,omitempty"`

	// ActiveDeadlineSeconds is how long the job may take; then it ends, and nodes that are not done have failed. It must be
	// greater than pullPolicy.timeoutSeconds, and the type must be Always. Without it there is no such limit.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// TTLSecondsAfterFinished is how long the job is kept after it has ended; then it is deleted. The type must be Always.
	// Without it the job is kept.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// ImagePullJobPodSelector chooses the nodes on which certain pods run.
type ImagePullJobPodSelector struct {
	metav1.LabelSelector `json:",inline"`
}

// ImagePullJobNodeSelector chooses nodes, by name or by label.
type ImagePullJobNodeSelector struct {
	// Names are the names of the nodes. They cannot be set together with labels.
	// +optional
	Names []string `json:"names,omitempty"`

	metav1.LabelSelector `json:",inline"`
}

// ImagePullJobStatus is what was seen last.
type ImagePullJobStatus struct {
	// StartTime is when the controller first saw the job.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// CompletionTime is when the job ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// Desired is the number of nodes that the job is about.
	Desired int32 `json:"desired"`

	// Active is the number of nodes that were told to pull and are not done.
	// +optional
	Active int32 `json:"active"`

	// Succeeded is the number of nodes that have the image.
	// +optional
	Succeeded int32 `json:"succeeded"`

	// Failed is the number of nodes that gave up.
	// +optional
	Failed int32 `json:"failed"`

	// Message says in words how far the job is.
	// +optional
	Message string `json:"message,omitempty"`

	// FailedNodes are the names of the nodes that gave up. Why is in the status of the NodeImage of each.
	// +optional
	FailedNodes []string `json:"failedNodes,omitempty"`
}
