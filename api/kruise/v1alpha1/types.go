// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/kruise/pub"
)

// DaemonSet keeps one pod on every node that should have one, like the DaemonSet of apps/v1, and can in addition update
// a part of the nodes only, pause, update pods in place, and run hooks before a pod is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=daemon;ads
// +kubebuilder:metadata:labels="everynode.dev/part-of=everynode"
// +kubebuilder:printcolumn:name="DESIRED",type="integer",JSONPath=".status.desiredNumberScheduled",description="Nodes that should run a pod."
// +kubebuilder:printcolumn:name="CURRENT",type="integer",JSONPath=".status.currentNumberScheduled",description="Nodes that should run a pod and do."
// +kubebuilder:printcolumn:name="READY",type="integer",JSONPath=".status.numberReady",description="Nodes with a pod that is ready."
// +kubebuilder:printcolumn:name="UP-TO-DATE",type="integer",JSONPath=".status.updatedNumberScheduled",description="Nodes with a pod of the newest revision."
// +kubebuilder:printcolumn:name="AVAILABLE",type="integer",JSONPath=".status.numberAvailable",description="Nodes with a pod that is available."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="Time since the object was created."
// +kubebuilder:printcolumn:name="CONTAINERS",type="string",priority=1,JSONPath=".spec.template.spec.containers[*].name",description="Names of the containers of the template."
// +kubebuilder:printcolumn:name="IMAGES",type="string",priority=1,JSONPath=".spec.template.spec.containers[*].image",description="Images of the containers of the template."
type DaemonSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec DaemonSetSpec `json:"spec,omitempty"`

	// Status is the observed state. Only the controller writes it. Before it has done so, the generation is -1, so that tools do not take a new object for
	// one that is done.
	// +optional
	// +kubebuilder:default={observedGeneration:-1,currentNumberScheduled:0,desiredNumberScheduled:0,numberMisscheduled:0,numberReady:0,updatedNumberScheduled:0}
	Status DaemonSetStatus `json:"status,omitempty"`
}

// DaemonSetList is a list of daemon sets.
//
// +kubebuilder:object:root=true
type DaemonSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DaemonSet `json:"items"`
}

// DaemonSetSpec is the desired state.
type DaemonSetSpec struct {
	// Selector finds the pods of this daemon set by their labels. It must match the labels of the template, must not be
	// empty, and cannot be changed.
	// +kubebuilder:pruning:PreserveUnknownFields
	Selector *metav1.LabelSelector `json:"selector"`

	// Template describes the pods, as in a DaemonSet of apps/v1. One pod is created on every node that its node selector,
	// node affinity and tolerations allow. Its only restart policy is Always. It is defaulted and validated by the API
	// server as a pod template of core/v1, so see kubectl explain podtemplate.template for its fields.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template runtime.RawExtension `json:"template"`

	// UpdateStrategy defines how old pods are replaced after the template has changed.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	UpdateStrategy DaemonSetUpdateStrategy `json:"updateStrategy,omitempty"`

	// MinReadySeconds is how long a new pod must be ready before it counts as available. The default is 0.
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// BurstReplicas is the largest number of pods that are created, deleted or updated in place at once, in one pass of the
	// controller: a number from 1, or a percentage of the nodes that should run a pod, of at least one node. The default
	// is 250.
	// +optional
	BurstReplicas *intstr.IntOrString `json:"burstReplicas,omitempty"`

	// RevisionHistoryLimit is how many old revisions of the template are kept, to roll back to. The default is 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// Lifecycle defines when a pod waits for another program.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Lifecycle *pub.Lifecycle `json:"lifecycle,omitempty"`
}

// DaemonSetUpdateStrategy defines how old pods are replaced.
type DaemonSetUpdateStrategy struct {
	// Type is RollingUpdate (the controller replaces old pods, within the limits of rollingUpdate) or OnDelete (an old
	// pod stays until it is deleted by a user or another program). The default is RollingUpdate.
	// +optional
	Type DaemonSetUpdateStrategyType `json:"type,omitempty"`

	// RollingUpdate has the limits of the type RollingUpdate; it has no effect with another type.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	RollingUpdate *RollingUpdateDaemonSet `json:"rollingUpdate,omitempty"`
}

// DaemonSetUpdateStrategyType is the type of an update strategy.
type DaemonSetUpdateStrategyType string

// The strategies.
const (
	// RollingUpdateDaemonSetStrategyType makes the controller replace old pods.
	RollingUpdateDaemonSetStrategyType DaemonSetUpdateStrategyType = "RollingUpdate"
	// OnDeleteDaemonSetStrategyType replaces an old pod only after it was deleted by a user or another program.
	OnDeleteDaemonSetStrategyType DaemonSetUpdateStrategyType = "OnDelete"
)

// RollingUpdateType defines how a pod is updated to the new revision.
type RollingUpdateType string

// The types of a rolling update.
const (
	// StandardRollingUpdateType replaces the pod by a new one.
	StandardRollingUpdateType RollingUpdateType = "Standard"
	// InplaceRollingUpdateType updates the pod in place if only its images, labels or annotations differ, and replaces
	// it otherwise.
	InplaceRollingUpdateType RollingUpdateType = "InPlaceIfPossible"
	// DeprecatedSurgingRollingUpdateType creates the new pod before the old one is deleted. It is stored as Standard
	// with maxSurge 1 and maxUnavailable 0, unless they are set.
	DeprecatedSurgingRollingUpdateType RollingUpdateType = "Surging"
)

// RollingUpdateDaemonSet has the limits of a rolling update.
type RollingUpdateDaemonSet struct {
	// How an old pod is updated to the new revision: Standard (it is replaced by a new one) or InPlaceIfPossible (if
	// only images of containers, labels or annotations of the template differ, the pod stays and only the containers
	// concerned restart; maxSurge must be 0). Surging is deprecated; it means Standard with maxSurge 1 and
	// maxUnavailable 0. The default is Standard.
	// +optional
	Type RollingUpdateType `json:"rollingUpdateType,omitempty"`

	// MaxUnavailable is the maximum number of nodes on which the pod may be unavailable at once during the update: a
	// number, or a percentage of the nodes that should run a pod, rounded up. Exactly one of maxUnavailable and maxSurge
	// must be 0. The default is 1 if maxSurge is not set either.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// MaxSurge is the maximum number of nodes on which the new pod may run at the same time as the old one, which is
	// deleted when the new one is available: a number, or a percentage of the nodes that should run a pod, rounded up.
	// The default is 0 if maxUnavailable is not set either.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// Selector selects the nodes that are updated by their labels; on all other nodes an old pod keeps its revision.
	// Without it all nodes are updated.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// Partition is the number of nodes on which the old pod stays: a number, or a percentage of the nodes that should
	// run a pod, rounded down. If it is at least the number of those nodes, no pod is updated. Raising it does not roll
	// back any pod. The default is 0.
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// Paused prevents new updates. Missing pods are still created. The default is false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// DaemonSetStatus is the observed state.
type DaemonSetStatus struct {
	// CurrentNumberScheduled is the number of nodes that should run a pod and have one.
	CurrentNumberScheduled int32 `json:"currentNumberScheduled"`

	// NumberMisscheduled is the number of nodes that have a pod and should not.
	NumberMisscheduled int32 `json:"numberMisscheduled"`

	// DesiredNumberScheduled is the number of nodes that should run a pod.
	DesiredNumberScheduled int32 `json:"desiredNumberScheduled"`

	// NumberReady is the number of nodes that should run a pod and have one that is ready.
	NumberReady int32 `json:"numberReady"`

	// ObservedGeneration is the generation of the object that this status is for.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// UpdatedNumberScheduled is the number of nodes that should run a pod and have one of the newest revision.
	UpdatedNumberScheduled int32 `json:"updatedNumberScheduled"`

	// NumberAvailable is the number of nodes that should run a pod and have one that is available: ready for at least
	// minReadySeconds.
	// +optional
	NumberAvailable int32 `json:"numberAvailable,omitempty"`

	// NumberUnavailable is the number of nodes that should run a pod and have none that is available.
	// +optional
	NumberUnavailable int32 `json:"numberUnavailable,omitempty"`

	// CollisionCount is how often the name of a new revision was already in use; it is part of the hash in the next
	// name.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`

	// Conditions are Progressing, Available, Paused and Degraded, and for tools that follow kstatus Ready, Reconciling and Stalled, each with its reason.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []appsv1.DaemonSetCondition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// DaemonSetHash is the newest revision: the label controller-revision-hash of the pods that are up to date.
	// +optional
	DaemonSetHash string `json:"daemonSetHash,omitempty"`
}
