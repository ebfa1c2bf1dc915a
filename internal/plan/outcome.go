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
	Surge    Verdict = "surge"    // a new pod is created next to the old one, which is then deleted
	Remove   Verdict = "remove"   // a pod is deleted and not replaced
	Wait     Verdict = "wait"     // the specification of the set, or its rollout policy, holds the node back until it is changed
	Blocked  Verdict = "blocked"  // something on the node blocks it
	Leave    Verdict = "leave"    // nothing happens
)

// Verdicts returns all outcomes, those with the largest changes first.
func Verdicts() []Verdict {
	return []Verdict{Create, Recreate, InPlace, Surge, Remove, Wait, Blocked, Leave}
}

// Starts reports whether something happens on a node with this outcome.
func (v Verdict) Starts() bool {
	switch v {
	case Create, Recreate, InPlace, Surge, Remove:
		return true
	default:
		return false
	}
}

// Sentence explains an outcome to users.
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
		return "the set itself, its budget or its rollout policy holds the node back"
	case Blocked:
		return "something on the node blocks it"
	default:
		return "nothing is done"
	}
}

// Node is the result for one node.
type Node struct {
	Name    string
	Verdict Verdict
	// Wave is the place in the order, divided by the budget, from 1; 0 if nothing starts.
	Wave int
	// Place is the place in the order of starts, from 0: among the updates if Update is true, otherwise among the
	// repairs.
	Place  int
	Update bool
	// Reason is the verdict of Decide that led to the outcome: that of the first action or, without an action, the last
	// one.
	Reason rollout.VerdictKind
	Detail rollout.Detail
	// Obstacle is the reason why a write was refused or got no clear answer, where Reason is rollout.Blocked, or why a pod does not start, as its status reports.
	Obstacle string
	// Start and End are relative to the begin of the plan. End is valid only if Ended is true.
	Start, End time.Duration
	// Ended reports whether the change finishes.
	Ended bool
	// Away reports whether the node uses a slot of the budget at any time while it is not ready.
	Away bool
}

// Result is the result of a simulation.
type Result struct {
	// Nodes has one entry for each node of the Snapshot, in the same order.
	Nodes []Node
	// Limit is the update budget, in nodes; Doubling reports whether it limits nodes with two pods (surge) instead of
	// nodes that are down.
	Limit    int
	Doubling bool
	// DownBefore is the number of nodes that are down before the first action, MostDown the highest number at the same
	// time afterwards.
	DownBefore, MostDown int
	// MostAtOnce is the highest number of updates at the same time.
	MostAtOnce int
	// Duration is when the last node finishes.
	Duration time.Duration
}

// Count returns the number of nodes for each outcome.
func (r Result) Count() map[Verdict]int {
	counts := map[Verdict]int{}
	for i := range r.Nodes {
		counts[r.Nodes[i].Verdict]++
	}
	return counts
}

// Waves returns the number of waves of the update.
func (r Result) Waves() int {
	last := 0
	for i := range r.Nodes {
		if r.Nodes[i].Update {
			last = max(last, r.Nodes[i].Wave)
		}
	}
	return last
}

// started returns the outcome of an action and its weight: if there are several actions on a node, the one with the
// highest weight determines the outcome. The weight 0 means no outcome. A Prepare counts as the action that follows it.
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

// finalVerdict returns the outcome of a node on which nothing was started.
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
