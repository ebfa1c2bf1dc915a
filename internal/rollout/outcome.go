// SPDX-License-Identifier: Apache-2.0

package rollout

import "slices"

// Outcome is the result of one action of a Plan. The zero value means that the action was not sent, or has no answer yet.
type Outcome struct {
	// Done reports whether the action took effect.
	Done bool
	// Obstacle is a human-readable reason why the action was not carried out, or why its outcome is unclear; empty if there is none.
	Obstacle string
}

// Preliminary reports whether an action only prepares a pod for the Patch or the Delete that follows. Its
// success does not prove that the following action will succeed.
func (k ActionKind) Preliminary() bool { return k == Mark || k == Prepare }

// After returns the plan that the status of its pass shows; outcomes has the outcome of each action. A node
// is blocked if the plan could not be carried out on it, or if its last write was refused and its turn did
// not come. Only verdicts change. The next Snapshot contains what the answers mean for the next decision.
func (p Plan) After(s *Snapshot, outcomes []Outcome) Plan {
	if len(outcomes) == 0 {
		return p
	}
	p.Verdicts, p.Obstacles = slices.Clone(p.Verdicts), map[int]string{}
	for i := range p.Actions {
		if why := outcomes[i].Obstacle; why != "" {
			p.block(p.Actions[i].Node, why)
		}
	}
	for i := range p.Actions {
		a := &p.Actions[i]
		n := &s.Nodes[a.Node]
		switch {
		case n.Refusal == nil || a.Kind.Preliminary():
		case a.TakesBack: // what it takes back is still refused
			p.block(a.Node, n.Refusal.Message)
		case !outcomes[i].Done && p.Verdicts[a.Node].Kind != Blocked:
			p.block(a.Node, n.Refusal.Message)
		}
	}
	return p
}

func (p *Plan) block(node int, why string) {
	p.Obstacles[node] = why
	p.Verdicts[node] = Verdict{Kind: Blocked, Charged: p.Verdicts[node].Charged}
}

// Obstacle returns a human-readable reason why the next write for a node of the Snapshot cannot be sent or was not carried out; empty if there is none.
func (p *Plan) Obstacle(s *Snapshot, node int) string {
	n := s.Nodes[node]
	if why, blocked := p.Obstacles[node]; blocked {
		n.Blocked = why
	}
	return n.Obstacle()
}
