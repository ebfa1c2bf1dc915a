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

	// Spec is the desired state.
	// +optional
	Spec ImagePullJobSpec `json:"spec,omitempty"`

	// Status is the observed state. Only the controller writes it. Before it has done so, the generation is -1, so that tools do not take a new object for
	// one that is done.
	// +optional
	// +kubebuilder:default={observedGeneration:-1,desired:0}
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

// ImagePullJobSpec is the desired state.
type ImagePullJobSpec struct {
	// Image is the image to pull, written as in a container: a name with a tag or a digest. The default tag is latest.
	Image string `json:"image"`

	// PullSecrets are the names of secrets in the namespace of the job with which the image is pulled. They cannot be
	// changed. They are used only if the configuration of the manager allows the namespace to do so.
	// +optional
	PullSecrets []string `json:"pullSecrets,omitempty"`

	// Selector selects nodes, by name or by label. It cannot be set together with podSelector. Without either, the job
	// selects all nodes.
	// +optional
	Selector *ImagePullJobNodeSelector `json:"selector,omitempty"`

	// PodSelector selects the nodes on which pods with these labels run, in the namespace of the job. It cannot be set
	// together with selector.
	// +optional
	PodSelector *ImagePullJobPodSelector `json:"podSelector,omitempty"`

	// Parallelism is the number of nodes that pull at once, a whole number. With 0, no further node starts. The default
	// is 1.
	// +optional
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`

	// PullPolicy limits the time and the attempts on one node.
	// +optional
	PullPolicy *PullPolicy `json:"pullPolicy,omitempty"`

	// CompletionPolicy defines when the job ends.
	CompletionPolicy CompletionPolicy `json:"completionPolicy"`

	// SandboxConfig is passed to the container runtime with the image.
	// +optional
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`

	// ImagePullPolicy is IfNotPresent (a node that has the image does not pull it) or Always (every node asks the
	// registry whether the tag has changed). The default is IfNotPresent.
	// +optional
	ImagePullPolicy ImagePullPolicy `json:"imagePullPolicy,omitempty"`
}

// ImagePullPolicy defines what a node does that already has the image.
type ImagePullPolicy string

// The policies.
const (
	// PullAlways always asks the registry.
	PullAlways ImagePullPolicy = "Always"
	// PullIfNotPresent uses an image that is on the node.
	PullIfNotPresent ImagePullPolicy = "IfNotPresent"
)

// SandboxConfig is passed to the container runtime with the image.
type SandboxConfig struct {
	// Labels are the labels of the sandbox config.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations are the annotations of the sandbox config.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// PullPolicy limits the time and the attempts on one node.
type PullPolicy struct {
	// TimeoutSeconds is how long one attempt may take. The default is 600.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// BackoffLimit is the number of retries on a node. The default is 3.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
}

// CompletionPolicyType defines whether a job ends.
type CompletionPolicyType string

// The completion policies.
const (
	// CompletionAlways ends the job when the pull has succeeded or failed on every node.
	CompletionAlways CompletionPolicyType = "Always"
	// CompletionNever continues the job, for nodes that are added later.
	CompletionNever CompletionPolicyType = "Never"
)

// CompletionPolicy defines when a job ends.
type CompletionPolicy struct {
	// Type is Always (the job ends when the pull has succeeded or failed on every node) or Never (it continues, for
	// nodes that are added later). The default is Always.
	// +optional
	Type CompletionPolicyType `json:"type,omitempty"`

	// ActiveDeadlineSeconds is the time limit of the job; then it ends, and the pull has failed on nodes that have not
	// finished. It must be greater than pullPolicy.timeoutSeconds, and the type must be Always. Without it there is no
	// limit.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// TTLSecondsAfterFinished is how long the job is kept after it has ended; then it is deleted. The type must be Always.
	// Without it the job is kept.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// ImagePullJobPodSelector selects the nodes on which certain pods run.
type ImagePullJobPodSelector struct {
	metav1.LabelSelector `json:",inline"`
}

// ImagePullJobNodeSelector selects nodes, by name or by label.
type ImagePullJobNodeSelector struct {
	// Names are the names of the nodes. They cannot be set together with labels.
	// +optional
	Names []string `json:"names,omitempty"`

	metav1.LabelSelector `json:",inline"`
}

// ImagePullJobStatus is the observed state.
type ImagePullJobStatus struct {
	// StartTime is when the controller first saw the job.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// CompletionTime is when the job ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// Desired is the number of nodes that the job selects.
	Desired int32 `json:"desired"`

	// Active is the number of nodes that must pull the image and have not finished.
	// +optional
	Active int32 `json:"active"`

	// Succeeded is the number of nodes that have the image.
	// +optional
	Succeeded int32 `json:"succeeded"`

	// Failed is the number of nodes on which the pull has failed.
	// +optional
	Failed int32 `json:"failed"`

	// Message describes the state of the job.
	// +optional
	Message string `json:"message,omitempty"`

	// FailedNodes are the names of the nodes on which the pull has failed. The reason is in the status of the NodeImage
	// of each.
	// +optional
	FailedNodes []string `json:"failedNodes,omitempty"`

	// ObservedGeneration is the generation of the object that this status is for. OpenKruise does not have this field.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, Reconciling and Stalled, for tools that follow kstatus. OpenKruise does not have this field.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
