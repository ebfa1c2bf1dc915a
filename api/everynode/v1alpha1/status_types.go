// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RolloutPolicyStatus is the observed state of a policy.
type RolloutPolicyStatus struct {
	// ObservedGeneration is the generation of the policy that the status belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Summary is the status in short, for the columns of kubectl get.
	// +optional
	Summary Summary `json:"summary,omitempty"`

	// Sets has an entry for each daemon set that the policy applies to.
	// +optional
	// +listType=map
	// +listMapKey=apiVersion
	// +listMapKey=name
	Sets []SetStatus `json:"sets,omitempty"`

	// Decisions are the states of approvals that the manager could not write into the approvals, for example because a webhook refuses that. So each
	// decision counts once, also for the next manager. The list has at most 256 entries: further decisions count when one of the two can be written.
	// +optional
	// +listType=map
	// +listMapKey=uid
	Decisions []DecisionState `json:"decisions,omitempty"`

	// Conditions are Ready, Reconciling and Stalled, as in kstatus, and Enforced: whether the policy controls everything, or what it cannot hold.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Summary is the status of a policy in short. It describes at most three daemon sets, those with an active rollout first. Their order is the same in each field.
type Summary struct {
	// Sets are the names of the daemon sets, and how many more the policy applies to; "-" if it is stalled because it applies to none.
	// +optional
	Sets string `json:"sets"`

	// Phases are the phases of these daemon sets, or Stalled if the policy is stalled because it applies to none.
	// +optional
	Phases string `json:"phases"`

	// Waves are the active waves of these daemon sets; "-" for none.
	// +optional
	Waves string `json:"waves"`
}

// DecisionState is the state of an approval.
type DecisionState struct {
	// UID is the UID of the approval.
	UID types.UID `json:"uid"`

	// RolloutApprovalStatus is what the status of the approval would be.
	RolloutApprovalStatus `json:",inline"`
}

// The types of the conditions of a policy.
const (
	ConditionReady       = "Ready"
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
	// ConditionEnforced is True if the policy controls everything of its daemon sets; if it is False, the message lists what it cannot hold. It is Unknown if the
	// policy applies to no daemon set, or is invalid.
	ConditionEnforced = "Enforced"
)

// SetStatus is how far the rollout of one daemon set has come.
type SetStatus struct {
	// APIVersion is the group of the daemon set: apps/v1 or apps.kruise.io/v1beta1.
	APIVersion string `json:"apiVersion"`

	// Name is the name of the daemon set.
	Name string `json:"name"`

	// Enforcement is what the policy controls. Full: Everynode creates and deletes the pods, so the policy applies in full. OnDelete: another controller creates the
	// pods, and Everynode only deletes old ones; a pod that joins or is replaced gets the newest revision. Announcements: the policy controls which pods
	// report that a newer revision exists, and the owner of a node decides when its pod is updated. None: the daemon set has the strategy OnDelete, so only
	// users update it.
	Enforcement Enforcement `json:"enforcement"`

	// Phase is what the rollout does now.
	Phase Phase `json:"phase"`

	// Wave is the name of the wave that is active; empty if no rollout is active.
	// +optional
	Wave string `json:"wave,omitempty"`

	// TargetRevision is the name of the ControllerRevision that the template describes.
	// +optional
	TargetRevision string `json:"targetRevision,omitempty"`

	// TargetNumber is the number that the revision had when its rollout began. It increases when the template returns to an earlier revision, so that soaks and
	// approvals of the earlier rollout do not count. It stays while the template does, also if the ControllerRevision gets another number.
	// +optional
	TargetNumber int64 `json:"targetNumber,omitempty"`

	// UID is the UID of the daemon set.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// ObservedGeneration is the generation of the daemon set (metadata.generation) at the last decision. While it is the same, so is the template, and the
	// rollout is the same one.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Attempt is how often the rollout to the target revision has begun: 1, and one more for each retry. Each attempt begins with the first wave, and approvals of
	// an earlier attempt do not count. It is absent if no rollout is active.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`

	// CommittedRevision is the name of the last ControllerRevision that has passed all waves.
	// +optional
	CommittedRevision string `json:"committedRevision,omitempty"`

	// CommittedDigest is the SHA-256 digest of the pod template in that ControllerRevision, as hexadecimal digits. A ControllerRevision with this name and another
	// template is not the one that was committed.
	// +optional
	CommittedDigest string `json:"committedDigest,omitempty"`

	// RejectedRevision is the name of the ControllerRevision that was rejected, if it is the one that the template describes; or was, until an undo changed the
	// template back.
	// +optional
	RejectedRevision string `json:"rejectedRevision,omitempty"`

	// Failure is the reason why the revision that the template describes has failed, if it has.
	// +optional
	Failure *RolloutFailure `json:"failure,omitempty"`

	// UndoStoppedAt is when an undo stopped, because the committed revision does not work either or the undo is not possible any more. It is empty after it has continued or ended.
	// +optional
	UndoStoppedAt *metav1.Time `json:"undoStoppedAt,omitempty"`

	// NotReadyBefore are nodes whose pod is not available before their update, or was not when it began, and has not become available since; and nodes that have
	// joined, on which the revision fails and no pod of the set has ever been available. They do not count as failed. The list has at most 256 names.
	// +optional
	// +listType=set
	NotReadyBefore []string `json:"notReadyBefore,omitempty"`

	// JoinedWithPod are nodes that have joined since the rollout began, have had a pod of the set, and have no available pod of the target revision yet. If another manager finds
	// such a node without a pod, the update has begun there. Nodes of earlier waves come first. The list has at most 256 names.
	// +optional
	// +listType=set
	JoinedWithPod []string `json:"joinedWithPod,omitempty"`

	// StartedAt is when the rollout to the target revision began. While nodes return because an undo has changed the template back, it is when the revision failed.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// LastStart is when the update of a node was last started.
	// +optional
	LastStart *metav1.MicroTime `json:"lastStart,omitempty"`

	// Waves has an entry for each wave, in order, the implicit wave for the remaining nodes included.
	// +optional
	// +listType=atomic
	Waves []WaveStatus `json:"waves,omitempty"`

	// Analyses has an entry for each analysis of the active wave, or of the wave that has failed.
	// +optional
	// +listType=map
	// +listMapKey=name
	Analyses []AnalysisStatus `json:"analyses,omitempty"`

	// Alerts is whether alerts hold updates of nodes; absent if the policy does not ask for alerts, or nothing waits for the answer.
	// +optional
	Alerts *AlertsStatus `json:"alerts,omitempty"`

	// Next is the next action of the manager, if one is known.
	// +optional
	Next *NextAction `json:"next,omitempty"`

	// Blocking has the reasons why nothing starts now.
	// +optional
	// +listType=atomic
	Blocking []Blocking `json:"blocking,omitempty"`
}

// Enforcement is what a policy controls.
type Enforcement string

// The values of Enforcement.
const (
	EnforcementFull          Enforcement = "Full"
	EnforcementOnDelete      Enforcement = "OnDelete"
	EnforcementAnnouncements Enforcement = "Announcements"
	EnforcementNone          Enforcement = "None"
)

// Phase is what the rollout of a daemon set does now.
type Phase string

// The phases.
const (
	// PhaseComplete: the template describes the committed revision, and all nodes have it.
	PhaseComplete Phase = "Complete"
	// PhaseRolling: nodes of the active wave are updated.
	PhaseRolling Phase = "Rolling"
	// PhaseSoaking: the active wave is complete and available, and is being observed.
	PhaseSoaking Phase = "Soaking"
	// PhaseWaitingForApproval: the active wave has soaked, and an approval is missing.
	PhaseWaitingForApproval Phase = "WaitingForApproval"
	// PhaseWaitingForWindow: nodes may be updated when a window opens or a freeze ends.
	PhaseWaitingForWindow Phase = "WaitingForWindow"
	// PhaseUndoing: the template describes the committed revision again, or the revision has failed, and nodes with another revision return to the committed
	// one, without waves.
	PhaseUndoing Phase = "Undoing"
	// PhaseFailed: the revision has failed. Nothing starts until the template changes, or a user retries it.
	PhaseFailed Phase = "Failed"
	// PhaseSuspended: the policy is suspended.
	PhaseSuspended Phase = "Suspended"
	// PhaseRejected: the revision was rejected. Nothing starts until the template changes.
	PhaseRejected Phase = "Rejected"
	// PhaseStalled: the policy cannot be followed, for example because another policy has the same target.
	PhaseStalled Phase = "Stalled"
)

// Phases returns all phases.
func Phases() []Phase {
	return []Phase{
		PhaseComplete, PhaseRolling, PhaseSoaking, PhaseWaitingForApproval, PhaseWaitingForWindow, PhaseUndoing, PhaseFailed, PhaseSuspended, PhaseRejected, PhaseStalled,
	}
}

// Ended reports whether no wave of the rollout goes on: all have passed, or the revision has failed or was rejected, or nodes return to the committed one.
func (p Phase) Ended() bool {
	return p == PhaseComplete || p == PhaseUndoing || p == PhaseFailed || p == PhaseRejected
}

// WaveStatus is how far one wave has come.
type WaveStatus struct {
	// Name is the name of the wave.
	Name string `json:"name"`

	// Nodes is the number of nodes in the wave that should run a pod, without those that are left out: because they are not ready, because their pod
	// was not available before the update, or because they have failed, may fail, and have no available pod.
	Nodes int32 `json:"nodes"`

	// Updated is the number of these nodes with a pod of the target revision.
	Updated int32 `json:"updated"`

	// Available is the number of these nodes where that pod is available.
	Available int32 `json:"available"`

	// Phase is Pending, Rolling, Soaking, WaitingForApproval or Passed.
	Phase WavePhase `json:"phase"`

	// RollingSince is since when nodes of the wave are being updated. It starts again when the wave was complete and is no longer.
	// +optional
	RollingSince *metav1.Time `json:"rollingSince,omitempty"`

	// CompletedAt is when all nodes of the wave were updated and available, and the soak began.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`

	// Soaked is the part of the soak that has passed, when the status was written.
	// +optional
	Soaked *metav1.Duration `json:"soaked,omitempty"`

	// SoakRestarts is how often the soak of the wave has started again because a pod was not available.
	// +optional
	SoakRestarts int32 `json:"soakRestarts,omitempty"`

	// SoakRestartedBy is the node with that pod, the last time.
	// +optional
	SoakRestartedBy string `json:"soakRestartedBy,omitempty"`

	// Rolled is the part of the time of the deadline of the wave that has passed, when the status was written.
	// +optional
	Rolled *metav1.Duration `json:"rolled,omitempty"`

	// Failed is the number of nodes of the wave on which the revision has failed.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// FailedNodes are the nodes of the wave on which the revision has failed, at most 256. After the first ten, each has only its name and reason.
	// +optional
	// +listType=atomic
	FailedNodes []FailedNode `json:"failedNodes,omitempty"`

	// Begun are the nodes of a wave with a number of nodes or with growth on which the update has begun, and that exist; empty if there are more than 50. Of
	// other waves, they are those that went down before they had their new pod, while they are down.
	// +optional
	// +listType=atomic
	Begun []string `json:"begun,omitempty"`

	// Gone is the number of nodes on which the update had begun and that no longer exist. No other node takes their places.
	// +optional
	Gone int32 `json:"gone,omitempty"`

	// Domain is the label, as key=value, of the last group of nodes of spec.order that the update has reached. If none of its nodes is left that had
	// the revision, no other group begins.
	// +optional
	Domain string `json:"domain,omitempty"`

	// WaitingSince is since when an approval is missing.
	// +optional
	WaitingSince *metav1.Time `json:"waitingSince,omitempty"`

	// Approval is the name of the RolloutApproval that approved or promoted the wave.
	// +optional
	Approval string `json:"approval,omitempty"`

	// ApprovedBy is the user whom that approval names.
	// +optional
	ApprovedBy string `json:"approvedBy,omitempty"`
}

// WavePhase is how far a wave has come.
type WavePhase string

// The phases of a wave.
const (
	WavePending            WavePhase = "Pending"
	WaveRolling            WavePhase = "Rolling"
	WaveSoaking            WavePhase = "Soaking"
	WaveWaitingForApproval WavePhase = "WaitingForApproval"
	WavePassed             WavePhase = "Passed"
)

// NextAction is the next action of the manager.
type NextAction struct {
	// Action is EndSoak, OpenWindow, EndFreeze, StartUpdate, or Approve, which is the action of a user.
	Action Action `json:"action"`

	// At is when it happens, if that is known and nothing else changes.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
}

// Action is an action of the manager or of a user.
type Action string

// The actions.
const (
	ActionEndSoak     Action = "EndSoak"
	ActionOpenWindow  Action = "OpenWindow"
	ActionEndFreeze   Action = "EndFreeze"
	ActionStartUpdate Action = "StartUpdate"
	ActionApprove     Action = "Approve"
)

// Blocking is a reason why nothing starts now.
type Blocking struct {
	// Reason is one word, for machine-readable output.
	Reason string `json:"reason"`

	// Message is a human-readable sentence.
	Message string `json:"message"`
}
