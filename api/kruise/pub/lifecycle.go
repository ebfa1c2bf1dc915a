// SPDX-License-Identifier: Apache-2.0

// Package pub holds the types that all versions of the API have in common.
//
// +kubebuilder:object:generate=true
package pub

// Lifecycle names the moments at which a pod waits for somebody else.
type Lifecycle struct {
	// PreDelete holds a pod back before it is deleted by the controller: on an update that recreates it, and when its node
	// must not run it any more. A pod that somebody else deletes is not held back by labels, only by finalizers.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	PreDelete *LifecycleHook `json:"preDelete,omitempty"`

	// InPlaceUpdate is known to the API of OpenKruise, but has never had an effect on daemon sets. It is refused.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	InPlaceUpdate *LifecycleHook `json:"inPlaceUpdate,omitempty"`

	// PreNormal is known to the API of OpenKruise, but has never had an effect on daemon sets. It is refused.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	PreNormal *LifecycleHook `json:"preNormal,omitempty"`
}

// LifecycleHook says which pods wait, and what is done to them meanwhile. A pod waits as long as it has one of the labels
// or one of the finalizers; whoever the pod waits for removes them when it is done.
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
