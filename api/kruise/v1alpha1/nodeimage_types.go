// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// NodeImage has the name of a node, the images that the node must pull, and their state. It is created and deleted with
// the node.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
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
	Spec v1beta1.NodeImageSpec `json:"spec,omitempty"`

	// Status is the observed state. The agent of the node writes it.
	// +optional
	Status v1beta1.NodeImageStatus `json:"status,omitempty"`
}

// NodeImageList is a list of node images.
//
// +kubebuilder:object:root=true
type NodeImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeImage `json:"items"`
}
