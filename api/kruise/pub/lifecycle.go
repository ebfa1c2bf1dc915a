// SPDX-License-Identifier: Apache-2.0

// Package pub has the types that all versions of the API share.
//
// +kubebuilder:object:generate=true
package pub

// Lifecycle defines when a pod waits for another program.
type Lifecycle struct {
	// PreDelete delays the deletion of a pod by the controller: when an update recreates it, and when its node must not
	// run it any more. If another client deletes a pod, only finalizers delay it, not labels.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	PreDelete *LifecycleHook `json:"preDelete,omitempty"`

	// InPlaceUpdate exists in the API of OpenKruise, but has never had an effect on daemon sets. It is rejected.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	InPlaceUpdate *LifecycleHook `json:"inPlaceUpdate,omitempty"`

	// PreNormal exists in the API of OpenKruise, but has never had an effect on daemon sets. It is rejected.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	PreNormal *LifecycleHook `json:"preNormal,omitempty"`
}

// LifecycleHook defines which pods wait, and how. A pod waits as long as it has one of the labels or one of the
// finalizers; the program that the pod waits for removes them when it has finished.
type LifecycleHook struct {
	// LabelsHandler are labels with their values; a pod that has one of them waits. Put them on the pods through the
	// template.
	// +optional
	LabelsHandler map[string]string `json:"labelsHandler,omitempty"`

	// FinalizersHandler are finalizers; a pod that has one of them waits. Put them on the pods through the template, or let
	// the controller that removes them add them.
	// +optional
	FinalizersHandler []string `json:"finalizersHandler,omitempty"`

	// MarkPodNotReady makes a pod that waits not ready, so that it gets no more traffic from Services. It works through the
	// readiness gate KruisePodReady, which new pods get when this is true. The default is false.
	// +optional
	MarkPodNotReady bool `json:"markPodNotReady,omitempty"`
}
