// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"

	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/plan"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// slowNodes is the number of nodes from which an update of one node at a time leads to a warning.
const slowNodes = 20

// warnBudget warns if many nodes are updated one at a time. It also simulates a budget of 10%.
func (f *prediction) warnBudget() []Warning {
	updates := 0
	for _, n := range f.result.Nodes {
		if n.Update {
			updates++
		}
	}
	if f.result.Limit != 1 || updates < slowNodes {
		return nil
	}
	m := fmt.Sprintf("one node at a time on %d nodes takes about %s", updates, text(f.result.Duration))
	tenth := rollout.Quantity{Value: 10, Percent: true}
	fields, faster, err := f.withBudget(tenth)
	if err == nil && len(fields) > 0 && faster.Duration < f.result.Duration && ended(faster) >= ended(f.result) {
		m += fmt.Sprintf("; with %s: 10%% (%d at once) it takes about %s", strings.Join(fields, " and "), faster.Limit, text(faster.Duration))
	}
	return []Warning{{Kind: warnSlow, Message: m}}
}

func ended(r plan.Result) int {
	n := 0
	for i := range r.Nodes {
		if r.Nodes[i].Ended {
			n++
		}
	}
	return n
}

// withBudget simulates the plan with another budget in place of one node, and returns the fields that must have it: that of the set, that of the policy, or both.
func (f *prediction) withBudget(q rollout.Quantity) (fields []string, r plan.Result, err error) {
	s, g, w := f.view.Snapshot, newGovernor(f), f.view.Workload
	nodes := 0
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Fit == rollout.MustRun && !n.Gone {
			nodes++
		}
	}
	byPolicy := w.ByPolicy != nil // the set has no budget of its own
	switch {
	case f.result.Doubling:
		fields, s.Set.MaxSurge = []string{"maxSurge"}, q
	case !byPolicy && w.Set.MaxUnavailable.Of(nodes) > 1:
		s.Set.MaxUnavailable = w.Set.MaxUnavailable // what limits it is the policy
	case edgeOf(f.object) != nil:
		fields, s.Set.MaxUnavailable = []string{openyurt.MaxUnavailable}, q
	default:
		if s.Set.MaxUnavailable = q; !byPolicy {
			fields = []string{"maxUnavailable"}
		}
	}
	if rules := g.rules(); rules != nil && !f.result.Doubling && (byPolicy || rules.MaxUnavailable != nil && rules.MaxUnavailable.Of(nodes) <= 1) {
		rules.MaxUnavailable = &q
		fields = append(fields, "spec.pace.maxUnavailable of rolloutpolicy/"+rules.Name)
	}
	if g == nil {
		r, err = plan.Simulate(s, f.play())
	} else {
		r, err = plan.Govern(s, f.play(), g)
	}
	return fields, r, err //nolint:wrapcheck // the caller does without the comparison
}

// rules returns the rules that the governor plays, to change them; nil without a policy that can be followed.
func (g *governor) rules() *policy.Policy {
	if g == nil || len(g.in.Policies) != 1 {
		return nil
	}
	own := *g.in.Policies[0]
	g.in.Policies = []*policy.Policy{&own}
	return &own
}
