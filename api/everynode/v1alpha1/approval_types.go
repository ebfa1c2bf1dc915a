// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RolloutApproval is a decision of a person about one wave of one rollout. It is valid for the named revision only, and only for the rollout that is
// active when it is created. Creating it is a permission of its own.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=roa,categories=everynode
// +kubebuilder:metadata:labels="everynode.dev/part-of=everynode"
// +kubebuilder:printcolumn:name="POLICY",type="string",JSONPath=".spec.policy",description="The policy."
// +kubebuilder:printcolumn:name="SET",type="string",JSONPath=".spec.set",description="The daemon set."
// +kubebuilder:printcolumn:name="WAVE",type="string",JSONPath=".spec.wave",description="The wave."
// +kubebuilder:printcolumn:name="REVISION",type="string",JSONPath=".spec.revision",description="The revision."
// +kubebuilder:printcolumn:name="DECISION",type="string",JSONPath=".spec.decision",description="The decision."
// +kubebuilder:printcolumn:name="BY",type="string",JSONPath=".spec.by",description="The user who decided."
// +kubebuilder:printcolumn:name="STATE",type="string",JSONPath=".status.state",description="Whether the decision counts."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="Time since the object was created."
// +kubebuilder:printcolumn:name="MESSAGE",type="string",priority=1,JSONPath=".status.message",description="Why the decision is void, or has no effect yet."
type RolloutApproval struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the decision. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a decision cannot be changed: create another RolloutApproval"
	Spec RolloutApprovalSpec `json:"spec"`

	// Status is whether the decision counts. Only the manager writes it.
	// +optional
	Status RolloutApprovalStatus `json:"status,omitempty"`
}

// RolloutApprovalList is a list of approvals.
//
// +kubebuilder:object:root=true
type RolloutApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RolloutApproval `json:"items"`
}

// RolloutApprovalSpec is the decision.
//
// +kubebuilder:validation:XValidation:rule="!(self.decision in ['Approve', 'Promote']) || has(self.wave) && size(self.wave) > 0",message="the decisions Approve and Promote need a wave"
type RolloutApprovalSpec struct {
	// Policy is the name of the RolloutPolicy, in the same namespace. The decision Reject also counts under each other policy of the daemon set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Policy string `json:"policy"`

	// Set is the name of the daemon set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Set string `json:"set"`

	// Wave is the name of the wave. Reject, Retry and Undo are about all waves, and need none.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Wave string `json:"wave,omitempty"`

	// Revision is the name of the ControllerRevision, as in targetRevision of the status of the policy.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision"`

	// Decision is Approve (the next wave may begin after the soak), Promote (the soak ends now; this does not replace an approval), Reject (no further
	// node gets the revision, until the template changes or the RolloutApproval is deleted), Undo (nodes with the revision return to the committed one, as
	// after a failure) or Retry (a revision that has failed, or was undone, is rolled out again from the first wave).
	// +kubebuilder:validation:Enum=Approve;Promote;Reject;Undo;Retry
	Decision Decision `json:"decision"`

	// By is the user who decides. If it is set, it must be the name of the user who creates the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	By string `json:"by,omitempty"`

	// Reason explains the decision, as text for humans.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// Decision is what a person decided.
type Decision string

// The decisions.
const (
	Approve Decision = "Approve"
	Promote Decision = "Promote"
	Reject  Decision = "Reject"
	// UndoRollout is the decision Undo.
	UndoRollout Decision = "Undo"
	Retry       Decision = "Retry"
)

// RolloutApprovalStatus is whether a decision counts. Approve, Promote and Retry have their effect after this is stored, here or in the field decisions of the
// status of the policy. Reject and Undo have theirs at once.
type RolloutApprovalStatus struct {
	// State is Valid or Void: Void, if the template did not describe the revision when the manager read the approval. It is
	// empty while the policy, the daemon set, the revision or the wave does not exist.
	// +optional
	State ApprovalState `json:"state,omitempty"`

	// TargetNumber is the number of the revision in the rollout that the decision counts for. If the template returns to the same revision later, that is
	// another rollout.
	// +optional
	TargetNumber int64 `json:"targetNumber,omitempty"`

	// Attempt is the attempt of that rollout that the decision counts for, as in attempt of the status of the policy. For the decision Retry it is the
	// attempt that the decision begins; if the revision had not failed, the decision begins none.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`

	// Step and Domain are absent, unless the decision is Promote, and the wave did not go on when the manager read it because nodes were gone or left out (NodesGone or
	// NodesLeftOut in blocking). The decision lets the wave go on without these nodes then, and does not end its soak. Step is how many nodes of the wave had their
	// turn until then, those that are gone included. If later ones are gone or left out, too, that needs another decision.
	// +optional
	Step int32 `json:"step,omitempty"`

	// Domain is the label, as key=value, of the last group of nodes of spec.order that had its turn until then.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Domain string `json:"domain,omitempty"`

	// Message says why the state is Void or, if it stays empty, why the decision has no effect yet. For a decision with a step or a domain, it says that the soak does
	// not end.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// ApprovalState is whether a decision counts.
type ApprovalState string

// The states.
const (
	ApprovalValid ApprovalState = "Valid"
	ApprovalVoid  ApprovalState = "Void"
)
