// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math"
	"time"
)

// Time is a point in time in nanoseconds since the Unix epoch; 0 means "never" or "not known".
type Time int64

// EndOfTime is the last point in time, in the year 2262. What is due then is never due: a time that is later, or too far away, is cut to it.
const EndOfTime Time = math.MaxInt64

// At returns a point in time; what lies beyond the first or the last one that a Time can hold, in the years 1677 and 2262, is that.
func At(t time.Time) Time {
	switch {
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case t.After(time.Unix(0, int64(EndOfTime))):
		return EndOfTime
	default:
		return Time(t.UnixNano())
	}
}

// Earlier returns the earlier of two points in time, of which 0 is never.
func Earlier(a, b Time) Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Add returns t moved by d; what would lie beyond the end of time is the end of time.
func (t Time) Add(d time.Duration) Time {
	sum := t + Time(d)
	switch {
	case d > 0 && sum < t:
		return EndOfTime
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
	// Gate is what a rollout policy allows; nil without one.
	Gate *Gate
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
	// MinReady is how long a pod must be ready before it counts as available.
	MinReady time.Duration
	// Burst is the largest number of actions in one plan; 0 means DefaultBurst. A percentage is rounded down, to at least 1.
	Burst Quantity
	// EligibleOnly excludes nodes that may only keep their pod (MayStay) from an update, because a successor could not be placed there.
	EligibleOnly bool
	Limits
	// InPlace reports whether an old pod is changed in place where that is possible, instead of being recreated. It has no
	// effect with surge.
	InPlace bool
	// Grace is how long a pod that is to be changed in place is not ready before that happens.
	Grace time.Duration
	// CloseGate reports whether a pod is not ready from before it is changed in place until its node runs the change, also without a Grace. Source: annotation
	// api/everynode.InPlaceGate.
	CloseGate bool
	// ExternalController means that another controller keeps the pods: it creates, repairs and removes them. A plan then holds nothing but
	// deletes of old pods for the update, and announcements. There is no surge, and no change in place.
	ExternalController bool
	// InitImages is whether an image of an init container is changed in place, too. Source: annotation api/everynode.InPlaceInitImages.
	InitImages bool
	// ImagesInPlace is whether Node.ImageWait counts only for a pod that is changed in place: the set has not asked to wait for images, and a pod that is
	// recreated does not.
	ImagesInPlace bool
	Unreachable   Unreachable
	// Announce is whether each pod announces whether there is a newer revision. If not, announcements of pods are withdrawn.
	Announce bool
}

// Unreachable is how a rolling update deals with nodes that are not ready. The zero value treats them like all others.
type Unreachable struct {
	// Skip leaves nodes that are not ready out: no update starts there, and they are charged only if the update may be why they
	// are not ready (see the package comment).
	Skip bool
	// AttributionWindow is the maximum time between the update of a node and its failure for which the failure is attributed to the update.
	AttributionWindow time.Duration
}

// Limits restrict how far a rolling update may go, independent of the budget. The zero value sets no limit.
type Limits struct {
	// Paused prevents every update from starting. Missing pods are still created, and broken pods repaired.
	Paused bool
	// Partition is how many of the desired nodes are kept at the revision that they have. A percentage is rounded down.
	Partition Quantity
	// Selective restricts the update to nodes with Selected set.
	Selective bool
	// Descending takes the nodes to update in descending order of their names; else the order is ascending.
	Descending bool
	// Progressive applies the partition also to nodes that never had a pod: they get theirs only as it is lowered.
	Progressive bool
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

// Down resolves q against total, rounding a percentage down, as OpenKruise does for the partition: 50% of 3 is 1.
func (q Quantity) Down(total int) int {
	value := min(max(q.Value, 0), math.MaxInt32)
	if !q.Percent {
		return value
	}
	return int(int64(value) * int64(total) / 100)
}

// Strategy says who starts the replacement of an old pod.
type Strategy uint8

// The strategies.
const (
	RollingUpdate Strategy = iota + 1 // the core, within the budgets
	OnDelete                          // a user deletes the pod
)

// Fit is the result of placement for a node and the pod template of the set.
type Fit uint8

// The fits. The zero value means "not evaluated", as does any other number: Decide does nothing on such a node.
const (
	NotKnown  Fit = iota // not evaluated yet
	MustRun              // a pod must run here
	MayStay              // no new pod may be placed here, one that runs may stay
	MustLeave            // no pod may run here
)

// known reports whether a fit has been evaluated.
func (f Fit) known() bool { return f >= MustRun && f <= MustLeave }

// Node is one node as seen by one set. There is one for each node of the cluster, so small fields are next to each other.
type Node struct {
	Name string
	Fit  Fit
	// Gone means that the Node object does not exist; Fit is MustLeave then.
	Gone bool
	// Selected reports whether the set's selector of nodes matches; it is looked at only when the set is Selective.
	Selected bool
	// Emptied lets an update remove the pod of a node that may only keep it also with EligibleOnly: an undo leaves none of the revision that has failed where only that one may run.
	Emptied bool
	// Agent reports whether an agent that restarts containers works on the node; it is looked at only for a Change with Agent.
	Agent bool
	// Unanswered reports whether it is not known if a create for this node took effect, or a delete: there may be one live pod more than Pods holds.
	Unanswered bool
	// Ready reports whether the node's condition Ready is True, and Since when that condition last changed.
	Ready bool
	// ImageWait is whether the images of the wanted revision are not on the node yet, and its update is to wait for them; set only
	// for sets that ask for that, and for changes in place (Set.ImagesInPlace). ImageUntil is when the update starts all the same; 0 means that
	// no end is known, because no node has been requested to pull them yet.
	ImageWait  bool
	ImageUntil Time
	Since      Time
	// Joined is when the Node object was created; 0 when that is not known.
	Joined Time
	// Blocked, when not empty, is why a write for this node was refused in a way that trying again at once cannot
	// fix (for example "pod name ds-abc is taken by a pod of another owner"). No pod is created here while it is set.
	Blocked string
	// Refusal is the refusal of the last write for this node; nil if there was none. The next write comes after all others, and not before Refusal allows it.
	Refusal *Refusal
	// Last is the index of the revision that the node's last pod had, or that it was to get next when that pod was deleted
	// for an update; NoRevision when nothing is known. It is looked at when a pod is missing on a node that is held.
	Last int
	// Pods holds the set's pods on this node (or bound for it), in any order; mostly none, one or two.
	Pods []Pod
}

// Pod is one pod of the set. As in Node, small fields are next to each other, to save memory.
type Pod struct {
	Name, UID string
	// Revision is the index in Snapshot.Revisions of the pod's revision, or NoRevision.
	Revision int
	Phase    Phase
	// Scheduled reports whether the pod is bound to its node (spec.nodeName is set).
	Scheduled bool
	// Deleting reports whether the pod has a deletion timestamp, or a delete of ours for it is under way.
	Deleting bool
	Ready    bool
	// Gate reports whether the pod has the readiness gate that a Mark closes.
	Gate bool
	Hook Hook
	// Evicted reports whether the pod was prepared because its node must not run it, which is not an update that has begun.
	Evicted bool
	InPlace InPlace
	// DeletedAt is when its deletion was asked for: deletionTimestamp less deletionGracePeriodSeconds. It is 0 when the pod is not
	// being deleted, or when that is not known.
	DeletedAt Time
	// ReadySince is when the Ready condition became what it is now.
	ReadySince Time
	Created    Time
	// GraceUntil is when a pod that is marked (InPlaceMarked, InPlaceAnnounced) may be changed; 0 means at once.
	GraceUntil Time
	// Trouble is the reason in its status why the pod does not start; empty if there is none. Decide does not read it: it is for
	// the explanation of a verdict, and for conditions.
	Trouble string
	// StuckAt is when Stuck takes effect: until then, and while the node is not ready, the node may still complete the change. 0 means at once.
	StuckAt Time
	// Stuck is the reason why the change that is under way (InPlacePatched, InPlaceAnnounced) can never be completed; NoDetail if it may.
	Stuck Detail
	// Open is whether the change in place that is under way was made without closing the gate: then nothing is to be written when the node runs the change.
	Open bool
	// Doubtful reports whether it is not known if an edit of ours took effect, after which the pod would serve no longer.
	Doubtful bool
	// Starting reports whether a container that reads labels or annotations in its environment does not run, so it is not known which it will have.
	Starting bool
	// Interrupted reports whether the pod, which is InPlaceArrived, was being prepared to be deleted, and that ended before it was: its gate was closed for the preDelete hook.
	Interrupted bool
	// NoResize reports whether the API server has refused to change the pod's resources.
	NoResize bool
	// Waiting are the reasons why containers do not start, Pull whether the pod waits for an image, and Restarts how often its containers were restarted, together. OtherRestarts
	// are those of Restarts of all containers but the one that was restarted most. Recreates is how many containers the change in
	// place that is under way still restarts. Decide does not look at them: they are for rollout policies, which judge a revision by its pods.
	Waiting   Waiting
	Pull      Pull
	Recreates uint8
	// Ended is why a container of the pod that does not run last ended, and ExitCode its code; as Waiting, this is for rollout policies.
	Ended Ending
	// Announced is what the pod announces about a newer revision.
	Announced               Announced
	ExitCode                int32
	Restarts, OtherRestarts uint16
}

// Announced is what a pod announces about a newer revision; the zero value is not an announcement.
type Announced struct {
	// Said reports whether it says anything of it.
	Said bool
	// Old reports whether it says that there is a newer revision.
	Old bool
	// Revision is the index of the revision that it says is the newest, or NoRevision. It is short because a Pod with it has 128 bytes, two lines of a cache.
	Revision int32
}

// Hook is how far the set's preDelete hook is for a pod.
type Hook uint8

// The states of the hook. From HookWaiting on the pod is preparing to be deleted.
const (
	HookNone     Hook = iota // no handler matches: the pod can be deleted at once
	HookArmed                // a handler matches: the pod must be prepared before it is deleted
	HookWaiting              // the pod is prepared, and a handler still matches
	HookReleased             // the pod is prepared, and no handler matches any more: it can be deleted
)

// InPlace is how far a change in place has come. While it is under way the pod counts as not ready, whatever its condition says:
// the kubelet may not have noticed yet.
type InPlace uint8

// The phases of a change in place.
const (
	InPlaceNone    InPlace = iota // none is under way
	InPlaceMarked                 // the readiness gate's condition is False; the pod has not been changed yet
	InPlacePatched                // the pod has been changed, the node does not run it yet
	InPlaceArrived                // the node runs it; the condition is not True yet. A pod with Open set has no such phase
	// InPlaceAnnounced is a change that another controller has begun and left: the pod is marked and says what it is to become, and
	// counts as of that revision already, but has not been changed yet, or only in part.
	InPlaceAnnounced
)

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

// Terminal reports whether a pod in this phase has ended for good.
func (p Phase) Terminal() bool { return p == Succeeded || p == Failed }

// Revision is one entry of the set's history.
type Revision struct {
	// Name is the value of the label controller-revision-hash.
	Name string
	// Number orders revisions; the newest has the highest.
	Number int64
	// Created is when the revision was recorded first; 0 when that is not known. A template that is changed back keeps it.
	Created Time
	Change
}

// Change is how the pods of a revision get from it to Set.Update.
type Change struct {
	// InPlace reports whether a pod of this revision can be made one of Set.Update in place; if not, Why is what
	// prevents it.
	InPlace bool
	Why     Detail
	// Resize reports whether that changes the resources of the pod, Restart whether the agent of the node restarts containers for it.
	Resize, Restart bool
	// Agent reports whether that is possible only on a node with an agent (Node.Agent): a pod of which no container restarts would not be one of Set.Update.
	Agent bool
	// InitImages reports whether that changes the image of an init container that has ended, so it runs only when the pod is started again.
	InitImages bool
}

// Memory is what the core must remember between two decisions; it goes in with a Snapshot and comes out with a Plan.
// Losing it is harmless: a failed pod is then replaced once without delay.
type Memory struct {
	// Update is the revision name that the back-offs were counted for; another revision starts afresh.
	Update string
	// Backoffs is sorted by node.
	Backoffs []Backoff
}

// Backoff is how long a node must wait before its failed pod is replaced again.
type Backoff struct {
	Node  string
	Delay time.Duration
	// Last is when a failed pod was last replaced here.
	Last Time
}
