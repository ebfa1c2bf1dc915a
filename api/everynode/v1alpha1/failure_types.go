// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Failure defines when a revision has failed: when more nodes of a wave fail than maxFailedNodes, or when a wave takes longer than waveDeadline. A node
// fails if its pod of the new revision is not available for nodeDeadline, restarts a container more than maxRestarts times, or waits for one of waitingReasons. Nodes
// whose pod was not available when their update began do not count, until they have had an available pod of the new revision.
type Failure struct {
	// NodeDeadline is how long a pod of the new revision, or its creation if that is refused, may be unavailable. The time in which a quota has no room for
	// the pod, and counts no more of it than of pods of the committed revision, does not count. The time in which the node is not ready does not count either, unless the
	// node stopped being ready within nodeDeadline after it got its pod, or after that was changed in place. Nor does the time of pulling images for the first
	// start of containers; where the kubelet does not report it, at most 30 minutes. Nor does the time in which the set is paused or the policy suspended. At least 1s;
	// the default is 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,9}([.][0-9]{1,9})?(ms|s)|[0-9]{1,7}([.][0-9]{1,9})?m|[0-9]{1,5}([.][0-9]{1,9})?h)+$') && duration(self) >= duration('1s')",message="must be a duration from 1s to 99999h, such as 30s, 10m or 24h"
	NodeDeadline *metav1.Duration `json:"nodeDeadline,omitempty"`

	// WaveDeadline is how long the update of a wave may take, until all its nodes are updated and available. The time does not count in which no update of the
	// wave has begun or may start, for example because no window is open, another set of the concurrency group is being updated, or other nodes use up the pace or
	// maxUnavailable. Nor does the soak, or a node where the old pod is still there because the node is not ready, an admission policy protects the pod, or the owner of
	// the node has not started its over-the-air update yet. If a pod is not available any more during the soak, the time continues, and does not start again. Without
	// it, there is no such limit.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,9}([.][0-9]{1,9})?(ms|s)|[0-9]{1,7}([.][0-9]{1,9})?m|[0-9]{1,5}([.][0-9]{1,9})?h)+$') && duration(self) >= duration('1s')",message="must be a duration from 1s to 99999h, such as 30s, 10m or 24h"
	WaveDeadline *metav1.Duration `json:"waveDeadline,omitempty"`

	// MaxFailedNodes is how many nodes of a wave may fail: a number, or a percentage of the nodes of the wave, rounded down, so that a small percentage of a
	// small wave is no node. The wave soaks and passes without them, but not without any node that works. Their pods stay as they are, and use up maxUnavailable of the daemon set. The default is 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^([0-9]|[1-9][0-9]|100)%$')",message="must be a number from 0, or a percentage from 0% to 100%"
	MaxFailedNodes *intstr.IntOrString `json:"maxFailedNodes,omitempty"`

	// MaxRestarts is how often a container of a pod of the new revision may restart. Restarts before the pod was changed in place, and in the time in which the
	// node was not ready, do not count; after such restarts, those of all containers count together. The default is 3.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`

	// WaitingReasons are reasons for which a container waits, as its pod shows them, that make a node fail at once. ImagePullBackOff includes ErrImagePull.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Enum=ImagePullBackOff;InvalidImageName;ErrImageNeverPull;ImageInspectError;RegistryUnavailable;SignatureValidationFailed;CrashLoopBackOff;CreateContainerConfigError;CreateContainerError;RunContainerError;PreCreateHookError;PreStartHookError;PostStartHookError
	// +listType=set
	WaitingReasons []string `json:"waitingReasons,omitempty"`

	// NotReadyBefore is Ignore: nodes whose pod was not available when their update began do not count.
	// +optional
	// +kubebuilder:validation:Enum=Ignore
	NotReadyBefore NotReadyBefore `json:"notReadyBefore,omitempty"`

	// Action is what happens after a failure: Pause (no update starts until the template changes, or a user creates a RolloutApproval with the decision
	// Retry) or Undo (in addition, nodes with the failed revision return to the committed revision; the template stays as it is). Undo needs a committed
	// revision, and pods that Everynode creates: otherwise it has the effect of Pause. The default is Pause.
	// +optional
	// +kubebuilder:validation:Enum=Pause;Undo
	Action FailureAction `json:"action,omitempty"`
}

// NotReadyBefore defines what counts for nodes that had no available pod when their update began.
type NotReadyBefore string

// IgnoreNotReadyBefore does not count them.
const IgnoreNotReadyBefore NotReadyBefore = "Ignore"

// FailureAction is what happens after a failure.
type FailureAction string

// The values of FailureAction.
const (
	FailurePause FailureAction = "Pause"
	FailureUndo  FailureAction = "Undo"
)

// Undo defines how nodes return to the committed revision.
type Undo struct {
	// Order is NewestFirst (nodes whose pods were created last return first) or ByName (in the order in which the daemon set updates nodes). The default is
	// NewestFirst.
	// +optional
	// +kubebuilder:validation:Enum=NewestFirst;ByName
	Order UndoOrder `json:"order,omitempty"`

	// MaxUnavailable is the maximum number of nodes on which the pod may be unavailable during the undo: a number, or a percentage of the nodes that should
	// run a pod, rounded up. It can only reduce what the daemon set allows. Pods that are not available can be replaced at any time.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="must be a number from 1, or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// IgnoreWindows is whether nodes return outside of windows and during freezes too. The default is false.
	// +optional
	IgnoreWindows bool `json:"ignoreWindows,omitempty"`
}

// UndoOrder is the order in which nodes return to the committed revision.
type UndoOrder string

// The values of UndoOrder.
const (
	UndoNewestFirst UndoOrder = "NewestFirst"
	UndoByName      UndoOrder = "ByName"
)

// RolloutFailure is the reason why a revision has failed.
type RolloutFailure struct {
	// Wave is the wave that failed; empty if a user asked for the undo.
	// +optional
	Wave string `json:"wave,omitempty"`

	// Action is what follows: Pause or Undo.
	Action FailureAction `json:"action"`

	// At is when the revision failed.
	// +optional
	At *metav1.Time `json:"at,omitempty"`

	// UndoAt is when the undo began, if that was later than At: the action was Pause before, or the undo was not possible.
	// +optional
	UndoAt *metav1.Time `json:"undoAt,omitempty"`

	// NewestPod is when the newest pod of the set at that moment, or at UndoAt, was created, by the clock of the API server. An undo has created only pods that are newer.
	// +optional
	NewestPod *metav1.Time `json:"newestPod,omitempty"`

	// Message is a human-readable sentence.
	// +optional
	Message string `json:"message,omitempty"`
}

// FailedNode is a node on which the new revision has failed.
type FailedNode struct {
	// Name is the name of the node.
	Name string `json:"name"`

	// Reason is one word: NotAvailable, NodeNotReady, Restarts, CreateRefused, or the reason for which a container waits.
	Reason string `json:"reason"`

	// Message is a human-readable sentence.
	// +optional
	Message string `json:"message,omitempty"`

	// Pod is the name of the pod; empty if the node has none. After an undo, the pod does not exist any more.
	// +optional
	Pod string `json:"pod,omitempty"`

	// ExitCode is the code with which a container of the pod last ended, if one has.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// ExitReason is the reason of that, as the pod shows it, for example OOMKilled.
	// +optional
	ExitReason string `json:"exitReason,omitempty"`
}
