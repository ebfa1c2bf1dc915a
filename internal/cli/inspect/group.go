// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"slices"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/live"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// neighbours returns what is known about the other sets in the concurrency group of a policy that applies to
// a set; nil without a group. Nodes do not count if it is not known whether an update made them unavailable;
// the manager reaches the same result after a while.
func (g *governor) neighbours(ctx context.Context, set *resolver.Set, own *policy.Policy, now rollout.Time) *policy.Neighbours {
	if own.Group == nil {
		return nil
	}
	rules := []*policy.Policy{own}
	for _, p := range g.read[set.Namespace()] {
		if p.Rules.Name != own.Name {
			rules = append(rules, p.Rules)
		}
	}
	members := policy.Members(own.Group.Name, rules)
	n := &policy.Neighbours{Group: policy.Widest(own.Group.Name, members)}
	for _, other := range g.others(ctx, set.Namespace(), now) {
		applies := func(p *policy.Policy) bool { return p.Selects(other.Set) }
		if other.Set.Name == set.Name() && other.Set.Advanced == set.Advanced() || !slices.ContainsFunc(members, applies) {
			continue
		}
		n.Others = append(n.Others, other)
	}
	return n
}

// others returns which nodes of the sets of a namespace are in the middle of their update, as far as policies apply to them. It is read once.
func (g *governor) others(ctx context.Context, namespace string, now rollout.Time) []policy.Neighbour {
	if all, known := g.known[namespace]; known {
		return all
	}
	if g.known == nil {
		g.known = map[string][]policy.Neighbour{}
	}
	g.known[namespace] = nil
	sets, reading, err := g.members(ctx, namespace)
	if err != nil {
		g.note("it is not known which other sets of the concurrency group are being updated: %v", err)
		return nil
	}
	for _, s := range sets {
		reading.Govern(s.Key())
		view, ok := reading.Evaluate(s.Key(), now)
		governance := g.of(ctx, s)
		if !ok || governance.unserved() {
			continue
		}
		governance.Adopt(&view)
		if in := governance.Input(&view); in != nil {
			in.Neighbours = &policy.Neighbours{}
			g.known[namespace] = append(g.known[namespace], policy.Neighbour{Set: governance.Set, Known: true, UnderWay: policy.Decide(in).UnderWay})
		}
	}
	return g.known[namespace]
}

// evaluator has what is known about sets.
type evaluator interface {
	Govern(key clustercache.Key)
	Evaluate(key clustercache.Key, now rollout.Time) (live.View, bool)
}

// members returns the sets of a namespace to which policies with a concurrency group apply, and what is known about them.
func (g *governor) members(ctx context.Context, namespace string) ([]*resolver.Set, evaluator, error) {
	other := func(s *resolver.Set) bool { return s.Namespace() != namespace || !g.grouped(s) }
	if g.fleet != nil {
		return slices.DeleteFunc(g.fleet.Sets(), other), g.fleet.Fleet, nil
	}
	c := *g.c
	c.Namespace = namespace
	sets, err := resolver.List(ctx, &c, false)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // it says what failed
	}
	if sets = slices.DeleteFunc(sets, other); len(sets) == 0 {
		return nil, nil, nil
	}
	read := live.ReadOptions{Client: c.Kubernetes, Dynamic: c.Dynamic, Namespace: namespace, Facts: facts()}
	for _, s := range sets {
		read.Sets = append(read.Sets, live.ReadSet{Source: s.Source, InPlace: s.Dialect.InPlace, Object: s.Object})
	}
	reading, err := live.Read(ctx, read)
	if err != nil {
		return nil, nil, Explain(err)
	}
	return sets, reading, nil
}

// grouped reports whether a policy with a concurrency group applies to a set.
func (g *governor) grouped(s *resolver.Set) bool {
	return slices.ContainsFunc(g.read[s.Namespace()], func(p *policies.Policy) bool { return p.Rules.Group != nil && p.Rules.Selects(policies.SetOf(s)) })
}

// unserved reports whether a manager reports that it does not update the set.
func (g *Governance) unserved() bool {
	return g.Stored != nil && g.Stored.Enforcement == v1alpha1.EnforcementNone
}

// ReadGroup reads the concurrency group of the first policy, which need not exist in the cluster.
func (g *Governance) ReadGroup(ctx context.Context, o *options.Options, c *options.Clients, set *resolver.Set) {
	rules := &governor{c: c, note: o.Note}
	rules.of(ctx, set)
	g.Neighbours = rules.neighbours(ctx, set, g.Policies[0].Rules, o.Time())
}

// HeldBy returns why a node waits for the concurrency group; empty if it does not.
func (g *Governance) HeldBy(node string, labels map[string]string) string {
	if g.Neighbours == nil {
		return ""
	}
	return g.Neighbours.Why(node, labels)
}
