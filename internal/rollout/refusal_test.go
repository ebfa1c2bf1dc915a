// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"
)

// refusedComesLast: a node where a write was refused is left alone until its time, and then keeps no other node from its turn.
func refusedComesLast(d *dumb, p Plan) error {
	lastFree, firstAgain := -1, len(p.Actions)
	for i, a := range p.Actions {
		f := d.nodes[a.Node]
		switch {
		case a.TakesBack: // another write than the one that was refused: it frees what that holds
		case d.barred(f):
			return fmt.Errorf("%s is tried again %s too early", f.Name, f.Refusal.RetryAt.Sub(d.s.Now))
		case f.Refusal != nil:
			firstAgain = min(firstAgain, i)
		default:
			lastFree = i
		}
	}
	if firstAgain < lastFree {
		return fmt.Errorf("%s, where a write was refused, comes before %s", d.nodes[p.Actions[firstAgain].Node].Name, d.nodes[p.Actions[lastFree].Node].Name)
	}
	for i, f := range d.nodes {
		if firstAgain < len(p.Actions) && f.Refusal == nil && p.Verdicts[i].Kind == WaitBudget && p.Actions[firstAgain].Reason != Removing &&
			d.startsOnServing(p.Actions[firstAgain]) {
			return fmt.Errorf("%s waits for the budget, and %s, where a write was refused, has got it", f.Name, d.nodes[p.Actions[firstAgain].Node].Name)
		}
	}
	return nil
}

// startsOnServing is whether an action starts an update on a node with one old pod that serves, which takes a slot.
func (d *dumb) startsOnServing(a Action) bool {
	f := d.nodes[a.Node]
	return d.candidate(f) && !d.idle(f) && slices.Contains([]VerdictKind{Recreating, Surging, UpdatingInPlace, Preparing}, a.Reason)
}

func refusalMutants(create func(int) Action) []mutant {
	return []mutant{
		{"tries again too early", []string{"node a must refused=5s"}, add(create(0)), "what was refused comes last"},
		{"takes what was refused first", []string{"node a must refused", "node b must"}, func(_ Snapshot, p *Plan) {
			slices.Reverse(p.Actions)
		}, "what was refused comes last"},
		{"gives the slot to the node that is refused", []string{"node a must refused v1:ready", "node b must v1:ready"}, func(s Snapshot, p *Plan) {
			p.Actions, p.Verdicts[1].Kind = nil, WaitBudget
			remove(0, Recreating)(s, p)
		}, "what was refused comes last"},
		{"does not say that a node is refused", []string{"node a must refused=5s"}, func(_ Snapshot, p *Plan) {
			p.Verdicts[0].Kind = WaitBurst
		}, "verdicts fit the actions"},
		{"forgets when to try again", []string{"node a must refused=5s v1:ready"}, func(_ Snapshot, p *Plan) { p.Wake = 0 }, "wakes in time"},
		{"waits longer than it has to", []string{"node a must refused=5s v1:ready"}, func(_ Snapshot, p *Plan) {
			p.Wake = p.Wake.Add(time.Second)
		}, "wakes in time"},
	}
}
