// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// Verdict is the outcome of a plan for one node.
type Verdict string

// The outcomes.
const (
	Create   Verdict = "create"   // a missing pod is created
	Recreate Verdict = "recreate" // the pod is deleted and replaced
	InPlace  Verdict = "in-place" // the pod is changed in place
	Surge    Verdict = "surge"    // a new pod is created beside the old one, which goes then
	Remove   Verdict = "remove"   // a pod is deleted and not replaced
	Wait     Verdict = "wait"     // the set itself keeps the node back until somebody changes it
	Blocked  Verdict = "blocked"  // something on the node blocks it
	Leave    Verdict = "leave"    // nothing is done
)

// Verdicts returns all outcomes, those that change most first.
func Verdicts() []Verdict {
	return []Verdict{Create, Recreate, InPlace, Surge, Remove, Wait, Blocked, Leave}
}

// Starts is whether something is done on a node with this outcome.
func (v Verdict) Starts() bool {
	switch v {
	case Create, Recreate, InPlace, Surge, Remove:
		return true
	default:
		return false
	}
}

// Sentence says what an outcome means, for people.
func (v Verdict) Sentence() string {
	switch v {
	case Create:
		return "a missing pod is created"
	case Recreate:
		return "the pod is deleted and replaced"
	case InPlace:
		return "the pod is changed in place"
	case Surge:
		return "a new pod is created next to the old one, which is then deleted"
	case Remove:
		return "a pod is deleted and not replaced"
	case Wait:
		return "the specification or the budget of the set holds the node back"
	case Blocked:
		return "something on the node blocks it"
	default:
		return "nothing is done"
	}
}

// Node is what becomes of one node.
type Node struct {
	Name    string
	Verdict Verdict
	// Wave is its place in the order, divided by the budget, from 1; 0 where nothing starts.
	Wave int
	// Place is its place in the order of starts, from 0: among the updates, or among the repairs. Update says which.
	Place  int
	Update bool
	// Reason is the verdict of Decide that led to the outcome: that of the first action, or that with which the node is left.
	Reason rollout.VerdictKind
	Detail rollout.Detail
	// Obstacle is why a write was refused or got no clear answer, where Reason is rollout.Blocked, or what a pod says of why it does not start.
	Obstacle string
	// Start and End are counted from the begin of the plan; End holds only when Ended is set.
	Start, End time.Duration
	// Ended is whether what starts comes to its end.
	Ended bool
	// Away is whether the node takes a slot of the budget, at any time, while it is not ready.
	Away bool
}

// Result is a plan that was played.
type Result struct {
	// Nodes has one entry for each node of the Snapshot, in the same order.
	Nodes []Node
	// Limit is the update budget, in nodes; Doubling is whether it counts nodes with two pods (surge) and not nodes that are down.
	Limit    int
	Doubling bool
	// DownBefore is how many nodes are down before anything is done, MostDown the highest number at once from then on.
	DownBefore, MostDown int
	// MostAtOnce is the highest number of updates that are under way at once.
	MostAtOnce int
	// Duration is when the last node comes to its end.
	Duration time.Duration
}

// Count returns how many nodes have each outcome.
func (r Result) Count() map[Verdict]int {
	counts := map[Verdict]int{}
	for i := range r.Nodes {
		counts[r.Nodes[i].Verdict]++
	}
	return counts
}

// Waves is the number of waves of the update.
func (r Result) Waves() int {
	last := 0
	for i := range r.Nodes {
		if r.Nodes[i].Update {
			last = max(last, r.Nodes[i].Wave)
		}
	}
	return last
}

// started is the outcome that an action leads to, and how much it weighs: of several on one node the heaviest is the outcome, and 0
// leads to none. A Prepare leads to what comes after it.
func started(a *rollout.Action) (Verdict, int) {
	switch a.Reason {
	case rollout.RemovingExcess:
		return Remove, 1
	case rollout.Creating:
		return Create, 2
	case rollout.UpdatingInPlace:
		return InPlace, 3
	case rollout.Recreating, rollout.ReplacingFailed, rollout.ReplacingEnded:
		return Recreate, 4
	case rollout.Surging, rollout.FinishingSurge:
		return Surge, 5
	case rollout.Removing:
		return Remove, 6
	default:
		return Leave, 0
	}
}

// updates is whether an action for this reason is part of an update of the node.
func updates(reason rollout.VerdictKind) bool {
	switch reason {
	case rollout.UpdatingInPlace, rollout.Recreating, rollout.Surging, rollout.FinishingSurge:
		return true
	default:
		return false
	}
}

// finalVerdict is the outcome of a node on which nothing was started.
func finalVerdict(kind rollout.VerdictKind) Verdict {
	switch {
	case kind.Cause() == rollout.CauseCollector:
		return Leave
	case kind.Group() == rollout.GroupQueued && kind.Cause() != rollout.CauseOther:
		return Wait
	case kind.Waits(), kind == rollout.NotEvaluated:
		return Blocked
	default:
		return Leave
	}
}
