// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// ImagePullJob pulls one image on many nodes, a few at a time, so that it is there before a pod needs it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="everynode.dev/part-of=everynode"
// +kubebuilder:printcolumn:name="TOTAL",type="integer",JSONPath=".status.desired",description="Nodes that the job is about."
// +kubebuilder:printcolumn:name="ACTIVE",type="integer",JSONPath=".status.active",description="Nodes that pull now."
// +kubebuilder:printcolumn:name="SUCCEED",type="integer",JSONPath=".status.succeeded",description="Nodes that have the image."
// +kubebuilder:printcolumn:name="FAILED",type="integer",JSONPath=".status.failed",description="Nodes that gave up."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="Time since the object was created."
// +kubebuilder:printcolumn:name="MESSAGE",type="string",JSONPath=".status.message",description="How far the job is, in words."
type ImagePullJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	Spec v1beta1.ImagePullJobSpec `json:"spec,omitempty"`

	// Status is the observed state. Only the controller writes it. Before it has done so, the generation is -1, so that tools do not take a new object for
	// one that is done.
	// +optional
	// +kubebuilder:default={observedGeneration:-1,desired:0}
	Status v1beta1.ImagePullJobStatus `json:"status,omitempty"`
}

// ImagePullJobList is a list of image pull jobs.
//
// +kubebuilder:object:root=true
type ImagePullJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ImagePullJob `json:"items"`
}
