// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutPolicy defines how new revisions of daemon sets reach the nodes: in which waves, how long each of them is observed, who approves, and when
// updates may start. It never writes to a daemon set, except that an undo next to another controller changes the template back, and the limits of the set itself
// stay upper bounds.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rop,categories=everynode
// +kubebuilder:metadata:labels="everynode.dev/part-of=everynode"
// +kubebuilder:printcolumn:name="SUSPENDED",type="boolean",JSONPath=".spec.suspend",description="Whether updates are suspended."
// +kubebuilder:printcolumn:name="SETS",type="string",JSONPath=".status.summary.sets",description="The daemon sets that the policy applies to."
// +kubebuilder:printcolumn:name="PHASE",type="string",JSONPath=".status.summary.phases",description="The phase of each of these daemon sets."
// +kubebuilder:printcolumn:name="WAVE",type="string",JSONPath=".status.summary.waves",description="The wave that is active in each of these daemon sets."
// +kubebuilder:printcolumn:name="READY",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether all of these daemon sets have the revision that their template describes."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp",description="Time since the object was created."
// +kubebuilder:printcolumn:name="REASON",type="string",priority=1,JSONPath=".status.conditions[?(@.type==\"Ready\")].message",description="Why the policy is ready or not."
type RolloutPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired behaviour.
	Spec RolloutPolicySpec `json:"spec"`

	// Status is the observed state. Only the manager writes it. Before it has done so, the generation is -1, so that tools do not take a new policy for one that
	// is done.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status RolloutPolicyStatus `json:"status,omitempty"`
}

// RolloutPolicyList is a list of rollout policies.
//
// +kubebuilder:object:root=true
type RolloutPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RolloutPolicy `json:"items"`
}

// RolloutPolicySpec is the desired behaviour.
//
// +kubebuilder:validation:XValidation:rule="!has(self.waves) || self.waves.all(w, !has(w.analysis) || w.analysis.all(n, has(self.analyses) && self.analyses.exists(a, a.name == n)))",message="each name in waves[].analysis must be that of an entry of analyses"
type RolloutPolicySpec struct {
	// Targets are the daemon sets that the policy applies to, in the namespace of the policy. If two policies apply to one daemon set, both report the
	// condition Stalled, and no update starts on it.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.name) || self.exists_one(u, has(u.name) && u.name == t.name && u.apiVersion.startsWith('apps/') == t.apiVersion.startsWith('apps/')))",message="two targets name the same daemon set"
	// +listType=atomic
	Targets []Target `json:"targets"`

	// Suspend prevents new updates of nodes. Updates that have begun continue, and missing pods are created. The default is false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// JoiningNodes defines which revision a node gets that has had no pod of the daemon set, before its wave has begun: Stable (the committed revision) or
	// Latest (the revision that the template describes). The default is Stable.
	// +optional
	// +kubebuilder:validation:Enum=Stable;Latest
	JoiningNodes JoiningNodes `json:"joiningNodes,omitempty"`

	// Pace limits how fast updates start. It can only reduce what the budget of the daemon set allows.
	// +optional
	Pace *Pace `json:"pace,omitempty"`

	// Order updates groups of nodes one after the other.
	// +optional
	Order *Order `json:"order,omitempty"`

	// ConcurrencyGroup keeps the daemon sets of a group from being updated on the same node, in the same zone, or anywhere in the cluster at the same time.
	// +optional
	ConcurrencyGroup *ConcurrencyGroup `json:"concurrencyGroup,omitempty"`

	// Waves are updated one after the other. A node belongs to the first wave that matches it. Nodes that no wave matches form a last wave with the name
	// remaining. Without waves, all nodes form this wave.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.filter(w, has(w.nodes.percent) && !has(w.nodes.selector)).map(w, w.nodes.percent).isSorted() && self.all(w, !has(w.nodes.percent) || has(w.nodes.selector) || self.exists_one(u, has(u.nodes.percent) && !has(u.nodes.selector) && u.nodes.percent == w.nodes.percent))",message="percentages include the nodes of earlier waves, so each nodes.percent without a selector must be higher than those before it"
	// +listType=map
	// +listMapKey=name
	Waves []Wave `json:"waves,omitempty"`

	// Failure defines when a revision has failed, and what happens then. Without it, a revision is not judged: a wave with a node that does not become
	// available just does not end.
	// +optional
	Failure *Failure `json:"failure,omitempty"`

	// Undo defines how nodes return to the committed revision after a failure with the action Undo.
	// +optional
	Undo *Undo `json:"undo,omitempty"`

	// Analyses are questions to providers, for example about metrics, that waves name. A wave passes only when the answer to each of its analyses is Pass; with
	// more than failureLimit failures in a row it fails, as with too many failed nodes.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	Analyses []Analysis `json:"analyses,omitempty"`

	// BlockOnAlerts keeps updates of nodes from starting while alerts are firing, or while it is not known whether they are. Updates that have begun continue,
	// and nodes return to the committed revision all the same.
	// +optional
	BlockOnAlerts *BlockOnAlerts `json:"blockOnAlerts,omitempty"`

	// Windows are the times when updates of nodes may start. Updates that have begun continue outside of them. Without windows, updates may start at any time.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Windows []Window `json:"windows,omitempty"`

	// Freezes are times when no update of a node starts, also within a window.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Freezes []Freeze `json:"freezes,omitempty"`

	// UnreachableAfter is how long a node must have been not ready before the waves continue without it: it then counts neither in its wave nor for the
	// pace, until it is ready again. Without it, such a node holds its wave, except in daemon sets with OpenYurt's strategies, which leave out nodes that
	// are not ready at once.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,9}([.][0-9]{1,9})?(ms|s)|[0-9]{1,7}([.][0-9]{1,9})?m|[0-9]{1,5}([.][0-9]{1,9})?h)+$')",message="must be a duration of at most 99999h, such as 30s, 10m or 24h"
	UnreachableAfter *metav1.Duration `json:"unreachableAfter,omitempty"`

	// ReadyWhen defines when the condition Ready is True: Complete (all nodes have the revision that the template describes, and all waves have ended) or
	// WaveHealthy (also while a rollout waits after a wave that is complete and available, and whose analyses pass, for example for an approval). The default
	// is Complete.
	// +optional
	// +kubebuilder:validation:Enum=Complete;WaveHealthy
	ReadyWhen ReadyWhen `json:"readyWhen,omitempty"`
}

// Target selects daemon sets of one kind, by name or by their labels.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.selector)",message="exactly one of name and selector must be set"
type Target struct {
	// APIVersion is apps/v1, apps.kruise.io/v1beta1 or apps.kruise.io/v1alpha1.
	// +kubebuilder:validation:Enum=apps/v1;apps.kruise.io/v1beta1;apps.kruise.io/v1alpha1
	APIVersion string `json:"apiVersion"`

	// Kind is DaemonSet.
	// +kubebuilder:validation:Enum=DaemonSet
	Kind string `json:"kind"`

	// Name is the name of one daemon set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// Selector selects daemon sets by their labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// JoiningNodes defines which revision a node gets that has had no pod.
type JoiningNodes string

// The values of JoiningNodes.
const (
	JoiningStable JoiningNodes = "Stable"
	JoiningLatest JoiningNodes = "Latest"
)

// Pace limits how fast updates start.
type Pace struct {
	// MaxUpgrading is the maximum number of nodes that are in the middle of their update at once: a number, or a percentage of the nodes that should run a
	// pod, rounded up. Without it, only the budget of the daemon set counts.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="must be a number from 1, or a percentage from 1% to 100%"
	MaxUpgrading *intstr.IntOrString `json:"maxUpgrading,omitempty"`

	// MaxUnavailable is the maximum number of nodes on which the pod may be unavailable during the update: a number, or a percentage of the nodes that should
	// run a pod, rounded up. It is the budget of daemon sets with the strategy OnDelete of which another controller creates the pods; there the default is 1.
	// For others it can only reduce their own maxUnavailable. It has no effect on daemon sets that surge.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="must be a number from 1, or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// MinTimeBetween is the time between the starts of two updates of nodes of one daemon set. Updates then start one at a time, also those of nodes that return
	// to the committed revision: with 10m, the undo on 100 nodes takes more than 16 hours.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,9}([.][0-9]{1,9})?(ms|s)|[0-9]{1,7}([.][0-9]{1,9})?m|[0-9]{1,5}([.][0-9]{1,9})?h)+$')",message="must be a duration of at most 99999h, such as 30s, 10m or 24h"
	MinTimeBetween *metav1.Duration `json:"minTimeBetween,omitempty"`
}

// Order updates groups of nodes one after the other.
type Order struct {
	// TopologyKey is the label of nodes by which they are grouped. Nodes without it form one group. If no node has it, the
	// rollout is stalled. The groups are updated in the order of their values.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	TopologyKey string `json:"topologyKey"`

	// Domains is OneAtATime: within each wave, a group begins when all nodes of the groups before it are updated and available.
	// +kubebuilder:validation:Enum=OneAtATime
	Domains DomainOrder `json:"domains"`
}

// DomainOrder defines the order of groups of nodes.
type DomainOrder string

// OneAtATime updates one group of nodes at a time.
const OneAtATime DomainOrder = "OneAtATime"

// ConcurrencyGroup is a group of daemon sets of which only one is updated at a place at a time. All daemon sets of the namespace whose policies name the
// group belong to it, whatever their kind. While a node of one of them is in the middle of its update, no update of another one starts at its place. A node
// that cannot finish its update therefore holds the others: their policies report for which daemon set and node they wait.
type ConcurrencyGroup struct {
	// Name identifies the group within the namespace of the policy. Groups of other namespaces with this name are other groups.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Scope is the place at which only one daemon set of the group is updated at a time: Node, Zone (nodes with the same label topology.kubernetes.io/zone;
	// nodes without it form one zone) or Cluster. If policies name different scopes for one group, the widest of them counts for all.
	// +kubebuilder:validation:Enum=Node;Zone;Cluster
	Scope ConcurrencyScope `json:"scope"`
}

// ConcurrencyScope is the place at which only one daemon set of a group is updated at a time.
type ConcurrencyScope string

// The values of ConcurrencyScope.
const (
	ScopeNode    ConcurrencyScope = "Node"
	ScopeZone    ConcurrencyScope = "Zone"
	ScopeCluster ConcurrencyScope = "Cluster"
)

// Wave is a part of the nodes that is updated before the next part begins.
//
// +kubebuilder:validation:XValidation:rule="self.name != 'remaining'",message="the name remaining is that of the nodes that no wave matches: choose another name"
type Wave struct {
	// Name identifies the wave, in approvals too.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Nodes defines which nodes belong to the wave, unless an earlier wave has them.
	Nodes WaveNodes `json:"nodes"`

	// Soak is how long the wave is observed before the next wave begins, from the moment when all its nodes are updated and available. If one of them stops
	// being available, the time starts again. The default is 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,9}([.][0-9]{1,9})?(ms|s)|[0-9]{1,7}([.][0-9]{1,9})?m|[0-9]{1,5}([.][0-9]{1,9})?h)+$')",message="must be a duration of at most 99999h, such as 30s, 10m or 24h"
	Soak *metav1.Duration `json:"soak,omitempty"`

	// Analysis are the names of the analyses that must pass. The soak counts only while the answer to each of them is Pass, and starts again after one that is
	// Fail. A RolloutApproval with the decision Promote ends the soak without them.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Analysis []string `json:"analysis,omitempty"`

	// After is what the next wave waits for after the soak. After the last wave, the revision is committed only then.
	// +optional
	// +kubebuilder:validation:MaxItems=1
	// +listType=atomic
	After []Gate `json:"after,omitempty"`

	// Growth updates the wave in steps. Each step begins when all nodes of the steps before it are updated and available.
	// +optional
	Growth *Growth `json:"growth,omitempty"`
}

// WaveNodes defines which nodes belong to a wave. Nodes that existed before the revision are taken in the order of their names; then those that joined
// later, in the order in which they joined.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.count) && has(self.percent))",message="at most one of count and percent can be set"
// +kubebuilder:validation:XValidation:rule="has(self.count) || has(self.percent) || has(self.selector)",message="one of selector, count and percent must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.spreadBy) || has(self.count) || has(self.percent)",message="spreadBy needs count or percent"
type WaveNodes struct {
	// Selector selects nodes by their labels. Without it, the wave can have any node.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// Count is the number of nodes in the wave.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Count *int32 `json:"count,omitempty"`

	// Percent is a percentage of the nodes that the selector selects and that should run a pod, rounded up. It is cumulative: nodes of earlier waves count.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`

	// SpreadBy are labels of nodes. The nodes of the wave are taken in turn from the groups that have equal values of these labels.
	// +optional
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=317
	// +listType=atomic
	SpreadBy []string `json:"spreadBy,omitempty"`
}

// Gate is something that the next wave waits for.
type Gate struct {
	// Type is Approval: a RolloutApproval for this policy, daemon set, wave and revision.
	// +kubebuilder:validation:Enum=Approval
	Type GateType `json:"type"`

	// RemindAfter is how often an event reminds of an approval that is missing. Without it, there is one event when the approval is first needed.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,9}([.][0-9]{1,9})?(ms|s)|[0-9]{1,7}([.][0-9]{1,9})?m|[0-9]{1,5}([.][0-9]{1,9})?h)+$') && duration(self) >= duration('1s')",message="must be a duration from 1s to 99999h, such as 30s, 10m or 24h"
	RemindAfter *metav1.Duration `json:"remindAfter,omitempty"`
}

// GateType is the type of a gate.
type GateType string

// GateApproval waits for a RolloutApproval.
const GateApproval GateType = "Approval"

// Growth updates a wave in steps that grow.
type Growth struct {
	// Start is the size of the first step: a number of nodes, or a percentage of the nodes of the wave, rounded up.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="must be a number from 1, or a percentage from 1% to 100%"
	Start intstr.IntOrString `json:"start"`

	// Factor is how many times larger each step is than the one before it. The default is 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Factor *int32 `json:"factor,omitempty"`
}

// Window is a time when updates of nodes may start.
type Window struct {
	// Schedule is when the window opens, in the format of cron with five fields: minute, hour, day of month, month, day of week. A time that does not exist
	// because clocks are set forward opens the window an hour later, and a time that exists twice opens it once. If the schedule cannot be read, the policy
	// reports the condition Stalled, and no update starts.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches(r'^@[a-z]+$|^[\\s\\pZ]*[^\\s\\pZ]+([\\s\\pZ]+[^\\s\\pZ]+){4}[\\s\\pZ]*$')",message="must have the five fields of cron, such as 0 22 * * 1-5: minute, hour, day of month, month, day of week"
	Schedule string `json:"schedule"`

	// Duration is how long the window is open: more than 0s, and at most 744h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,9}([.][0-9]{1,9})?s|[0-9]{1,7}([.][0-9]{1,9})?m|[0-9]{1,5}([.][0-9]{1,9})?h)+$') && duration(self) > duration('0s')",message="must be a duration of more than 0s, such as 30s, 10m or 24h"
	Duration metav1.Duration `json:"duration"`

	// TimeZone is the name of the time zone of the schedule, for example Europe/Berlin. The default is UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// Freeze is a time when no update of a node starts.
//
// +kubebuilder:validation:XValidation:rule="self.from < self.to",message="from must be before to"
type Freeze struct {
	// From is when the freeze begins.
	From metav1.Time `json:"from"`
	// To is when the freeze ends.
	To metav1.Time `json:"to"`
}

// ReadyWhen defines when a policy is ready.
type ReadyWhen string

// The values of ReadyWhen.
const (
	ReadyComplete    ReadyWhen = "Complete"
	ReadyWaveHealthy ReadyWhen = "WaveHealthy"
)
