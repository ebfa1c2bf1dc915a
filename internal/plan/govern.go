// SPDX-License-Identifier: Apache-2.0

package plan

import "everynode.dev/everynode/internal/rollout"

// Governor is what rollout policies allow, as the simulated time passes.
type Governor interface {
	// Govern restricts a Snapshot before a decision, and returns when to decide again although nothing happens; 0 for never.
	Govern(s *rollout.Snapshot) rollout.Time
	// Decided reports the plan that follows from it.
	Decided(s *rollout.Snapshot, p *rollout.Plan)
	// Template is the index of the revision that the template describes after a decision: an undo next to another controller changes the template.
	Template() int
}

// Govern is Simulate of a set that rollout policies govern.
func Govern(s rollout.Snapshot, a Assumptions, g Governor) (Result, error) {
	p := newSimulator(s, a)
	p.governed = true
	p.decide = func(s rollout.Snapshot) rollout.Plan {
		wake := g.Govern(&s)
		plan := rollout.Decide(s)
		g.Decided(&s, &plan)
		plan.Wake = rollout.Earlier(plan.Wake, wake)
		p.world.State.Set.Update = g.Template()
		return plan
	}
	return p.run()
}
