// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math"
	"time"
)

// Time is a point in time in nanoseconds since the Unix epoch; 0 means "never" or "not known".
type Time int64

// Add returns t moved by d; what would lie beyond the end of time is the end of time.
func (t Time) Add(d time.Duration) Time {
	sum := t + Time(d)
	switch {
	case d > 0 && sum < t:
		return math.MaxInt64
	case d < 0 && sum > t:
		return math.MinInt64
	default:
		return sum
	}
}

// Sub returns the duration t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Snapshot is everything that Decide may look at: one set, all nodes that concern it, at one moment.
type Snapshot struct {
	Now Time
	Set Set
	// Nodes is sorted by name, without duplicates. A node whose object is gone but on which pods of the set are left
	// is present with Gone set.
	Nodes []Node
	// Revisions are the revisions known to the history, oldest first. Pods and Set.Update refer to them by index.
	Revisions []Revision
	Memory    Memory
}

// Set is the digested specification of one daemon set, the same for every dialect.
type Set struct {
	// Update is the index in Snapshot.Revisions of the revision that the template describes now.
	Update   int
	Strategy Strategy
	// MaxUnavailable and MaxSurge are the budgets of a rolling update; a percentage is of the desired number of nodes
	// and is rounded up. MaxSurge > 0 selects "create first".
	MaxUnavailable, MaxSurge Quantity
	// MaxReplacing caps at how many nodes at once an update may be in flight when it starts from an old pod that is
	// already unavailable; nil means no cap, as upstream. Source: annotation api/everynode.MaxReplacing.
	MaxReplacing *Quantity
	// MinReady is how long a pod has to be ready before it counts as available.
	MinReady time.Duration
	// Burst is the largest number of actions in one plan; 0 means DefaultBurst.
	Burst int
}

// DefaultBurst is the number of writes that one plan holds at most (BurstReplicas of the native controller).
const DefaultBurst = 250

// Quantity is a number, or a percentage of the desired number of nodes.
type Quantity struct {
	Value   int
	Percent bool
}

// Of resolves q against total, rounding a percentage up, as upstream does for maxUnavailable and maxSurge: 10% of 11 is 2.
// A negative quantity is none.
func (q Quantity) Of(total int) int {
	value := min(max(q.Value, 0), math.MaxInt32)
	if !q.Percent {
		return value
	}
	return int((int64(value)*int64(total) + 99) / 100)
}

// Strategy says who starts the replacement of an old pod.
type Strategy uint8

// The strategies.
const (
	RollingUpdate Strategy = iota + 1 // the core, within the budgets
	OnDelete                          // whoever deletes the pod
)

// Fit is what placement says of a node and the pod template of the set.
type Fit uint8

// The fits. The zero value stands for "not evaluated", as does any other number: Decide leaves such a node alone.
const (
	NotKnown  Fit = iota // not evaluated yet
	MustRun              // a pod has to run here
	MayStay              // no new pod may be placed here, one that runs may stay
	MustLeave            // no pod may run here
)

// known is whether a fit has been evaluated.
func (f Fit) known() bool { return f >= MustRun && f <= MustLeave }

// Node is one node as seen by one set.
type Node struct {
	Name string
	Fit  Fit
	// Gone means that the Node object does not exist; Fit is MustLeave then.
	Gone bool
	// Ready is whether the node's condition Ready is True, and Since when that condition last changed.
	Ready bool
	Since Time
	// Blocked, when not empty, says why a write for this node was refused in a way that trying again at once cannot
	// mend (for example "pod name ds-abc is taken by a pod of somebody else"). No pod is created here while it is set.
	Blocked string
	// Pods holds the set's pods on this node (or bound for it), in any order; mostly none, one or two.
	Pods []Pod
}

// Pod is one pod of the set.
type Pod struct {
	Name, UID string
	// Revision is the index in Snapshot.Revisions of the pod's revision, or NoRevision.
	Revision int
	Phase    Phase
	// Scheduled is whether the pod is bound to its node (spec.nodeName is set).
	Scheduled bool
	// Deleting is whether the pod has a deletion timestamp, or a delete of ours for it is under way.
	Deleting bool
	Ready    bool
	// ReadySince is when the Ready condition became what it is now.
	ReadySince Time
	Created    Time
}

// NoRevision marks a pod whose revision is not in the history (any more).
const NoRevision = -1

// Phase is the phase of a pod, as in core/v1.
type Phase uint8

// The phases; an unknown phase counts as Pending.
const (
	Pending Phase = iota
	Running
	Succeeded
	Failed
)

// Terminal is whether a pod in this phase has ended for good.
func (p Phase) Terminal() bool { return p == Succeeded || p == Failed }

// Revision is one entry of the set's history.
type Revision struct {
	// Name is the value of the label controller-revision-hash.
	Name string
	// Number orders revisions; the newest has the highest.
	Number int64
}

// Memory is what the core has to remember between two decisions; it goes in with a Snapshot and comes out with a Plan.
// Losing it is harmless: a failed pod is then replaced once without delay.
type Memory struct {
	// Update is the revision name that the back-offs were counted for; another revision starts afresh.
	Update string
	// Backoffs is sorted by node.
	Backoffs []Backoff
}

// Backoff is how long a node has to wait before its failed pod is replaced again.
type Backoff struct {
	Node  string
	Delay time.Duration
	// Last is when a failed pod was last replaced here.
	Last Time
}
