// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"slices"

	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// State is the state of a rollout.
type State string

// The states.
const (
	Finished State = "finished" // every node that the rollout can reach is updated and available
	Rolling  State = "rolling"  // there is work left, or something to wait for
	Failed   State = "failed"   // the manager does nothing for the set, because its specification is rejected
)

// Outcome is the state of a rollout, with the reason.
type Outcome struct {
	State State `json:"state"`
	// Why is a sentence without a capital letter and a full stop.
	Why string `json:"why"`
	// Left are the unfinished nodes, Unreachable those of them that are not ready, Kept those that the rollout cannot
	// reach.
	Left        []string `json:"left,omitempty"`
	Unreachable []string `json:"unreachable,omitempty"`
	Kept        []string `json:"kept,omitempty"`
}

// nodeClass is the class of a node in an outcome.
type nodeClass uint8

const (
	done        nodeClass = iota
	left                  // the rollout waits for it
	keptBySet             // the specification of the set excludes it
	keptByTaint           // it is ready, and a taint prevents a new pod
)

// classOf returns the class of a node. A node that needs no pod is done, unless it has an old pod: a disconnected node
// has a taint against new pods, so it need not run one, but it still runs its old one.
func classOf(s *rollout.Snapshot, n *rollout.Node, kind rollout.VerdictKind) nodeClass {
	switch {
	case n.Fit == rollout.MustLeave:
		return done
	case n.Fit == rollout.MayStay:
		return classBehindTaint(s, n)
	case kind == rollout.UpToDate:
		return done
	case view.HeldBySet(kind):
		return keptBySet
	default:
		return left
	}
}

// classBehindTaint is classOf for a node on which no new pod may be created. If the node is ready, a terminating pod
// ends soon; if not, it may still be running.
func classBehindTaint(s *rollout.Snapshot, n *rollout.Node) nodeClass {
	answer := done
	for i := range n.Pods {
		switch p := &n.Pods[i]; {
		case p.Phase.Terminal():
		case !n.Ready && (p.Deleting || p.Revision != s.Set.Update):
			return left
		case !p.Deleting && p.Revision != s.Set.Update:
			answer = keptByTaint
		}
	}
	return answer
}

// refused returns the first problem because of which nothing is done for a set; nil if there is none.
func refused(w *dialect.Workload) *dialect.Problem {
	if i := slices.IndexFunc(w.Problems, func(p dialect.Problem) bool { return p.Fatal }); i >= 0 {
		return &w.Problems[i]
	}
	return nil
}

// Outcome returns the state of the rollout of a set, as of its policy.
func (m *Evaluation) Outcome() Outcome {
	return m.Governance.Report().end(OutcomeOf(m.Workload, &m.Snapshot, &m.Plan, false))
}

// OutcomeOf returns the state of the rollout of a set without its policy. With ignoreUnreachable it is finished if all unfinished nodes
// are not ready.
func OutcomeOf(w *dialect.Workload, s *rollout.Snapshot, p *rollout.Plan, ignoreUnreachable bool) Outcome {
	if problem := refused(w); problem != nil {
		return Outcome{State: Failed, Why: problem.Message}
	}
	var o Outcome
	var behindTaints []string
	for i := range s.Nodes {
		node := &s.Nodes[i]
		switch classOf(s, node, p.Verdicts[i].Kind) {
		case done:
		case keptBySet:
			o.Kept = append(o.Kept, node.Name)
		case keptByTaint:
			behindTaints = append(behindTaints, node.Name)
		case left:
			o.Left = append(o.Left, node.Name)
			if !node.Ready {
				o.Unreachable = append(o.Unreachable, node.Name)
			}
		}
	}
	o.State = Rolling
	if len(o.Left) == 0 || ignoreUnreachable && len(o.Left) == len(o.Unreachable) {
		o.State = Finished
	}
	o.Why = o.sentence(s, p, behindTaints)
	o.Kept = slices.Sorted(slices.Values(append(o.Kept, behindTaints...)))
	return o
}

// maxNames is the maximum number of listed nodes of each class.
const maxNames = 4

// sentence describes the state of the rollout; o.Kept are the nodes that the specification excludes.
func (o Outcome) sentence(s *rollout.Snapshot, p *rollout.Plan, behindTaints []string) string {
	text := fmt.Sprintf("%d of %d nodes are updated and available", available(s, p), p.Status.Desired)
	if len(o.Kept) > 0 {
		text += fmt.Sprintf(", %d excluded by the set itself (%s)", len(o.Kept), view.List(o.Kept, maxNames))
	}
	if len(behindTaints) > 0 {
		text += fmt.Sprintf(", %d with an old pod and a taint that prevents a new one (%s)", len(behindTaints), view.List(behindTaints, maxNames))
	}
	switch {
	case len(o.Left) == 0:
		return text
	case len(o.Unreachable) == len(o.Left):
		text += fmt.Sprintf(", %d left and not ready (%s)", len(o.Left), view.List(o.Left, maxNames))
	case len(o.Unreachable) > 0:
		text += fmt.Sprintf(", %d left (%s), %d of them not ready", len(o.Left), view.List(o.Left, maxNames), len(o.Unreachable))
	default:
		text += fmt.Sprintf(", %d left (%s)", len(o.Left), view.List(o.Left, maxNames))
	}
	switch n := waitingForOwners(p); n {
	case 0:
		return text
	case len(o.Left):
		return text + ", updated when the owners of the nodes upgrade them"
	default:
		return text + fmt.Sprintf(", %d of them updated when the owners of the nodes upgrade them", n)
	}
}

// waitingForOwners counts the nodes that are updated when their owners decide.
func waitingForOwners(p *rollout.Plan) int {
	n := 0
	for i := range p.Verdicts {
		if p.Verdicts[i].Kind == rollout.WaitNodeOwner {
			n++
		}
	}
	return n
}

// available counts the finished nodes.
func available(s *rollout.Snapshot, p *rollout.Plan) int {
	n := 0
	for i := range s.Nodes {
		if p.Verdicts[i].Kind == rollout.UpToDate {
			n++
		}
	}
	return n
}

// Reason returns why a node has its verdict, as a sentence without a capital letter and a full stop, with the details
// of the verdict.
func Reason(s *rollout.Snapshot, n *rollout.Node, v rollout.Verdict) string {
	text, says := view.Reason(s, n, v.Kind)
	if says != "" {
		text += ": " + says
	}
	if more := v.Detail.Sentence(); more != "" {
		text += "; " + more
	}
	return text
}
