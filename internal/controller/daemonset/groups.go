// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"slices"
	"sync"
	"time"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/policyinput"
	"everynode.dev/everynode/internal/rollout"
)

// groups has the ledgers of concurrency groups. A group is known in its own namespace only, so that no tenant can hold the sets of another one.
type groups struct {
	mu sync.Mutex
	of map[string]*ledger
}

// ledger records the groups of a namespace. A pass holds its lock from when it looks at the other sets of the group until its own decision is recorded, before
// anything is written: of two sets that want to start at one place, the second one sees the first.
type ledger struct {
	mu sync.Mutex
	policy.Ledger
	// users is how many have opened it and have not released it; groups.mu guards it.
	users int
}

// open returns the ledger of a namespace, which is to be released; nil if there is none and none is to be made.
func (g *groups) open(namespace string, add bool) *ledger {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.of[namespace]
	if l == nil && add {
		l = &ledger{}
		if g.of == nil {
			g.of = map[string]*ledger{}
		}
		g.of[namespace] = l
	}
	if l != nil {
		l.users++
	}
	return l
}

// release gives back a ledger that open has returned. One in which nothing is recorded goes with its last user.
func (g *groups) release(namespace string, l *ledger) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.users--; l.users == 0 && l.Empty() {
		delete(g.of, namespace)
	}
}

// turn is the part of a pass in which no other set of the namespace that belongs to a group decides; the zero value is for a set without a group.
type turn struct {
	of         *ledger
	neighbours *policy.Neighbours
	in         *policy.Input
	// decided reports whether the decision of the set has been recorded, or that it belongs to no group.
	decided bool
}

// groupOf is the name of the group of a set with these policies; empty for none.
func groupOf(of []*policy.Policy) string {
	for _, p := range of {
		if p.Group != nil {
			return p.Group.Name
		}
	}
	return ""
}

// group is the name of the group of the set; empty for none. A set whose policy was deleted in the middle of its rollout stays in the group of that policy.
func (p *pass) group() string {
	if name := groupOf(p.rules.Policies); name != "" || len(p.rules.Policies) > 0 || !p.marked {
		return name
	}
	set := policyinput.SetOf(p.w)
	l := p.c.groups.open(set.Namespace, false)
	if l == nil {
		return ""
	}
	defer p.c.groups.release(set.Namespace, l)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.GroupOf(set)
}

// beginTurn waits for the turn of the set, if it belongs to a group.
func (p *pass) beginTurn() {
	set, name := policyinput.SetOf(p.w), p.group()
	if name == "" {
		p.c.quitGroup(p.key, set)
		p.turn.decided = true
		return
	}
	p.turn.of = p.c.groups.open(set.Namespace, true)
	p.turn.of.mu.Lock()
	members := policy.Members(name, p.c.Policies.Grouped(set.Namespace))
	p.turn.neighbours = p.turn.of.See(policy.Candidate{Set: set, Created: p.w.Created}, policy.Widest(name, members), p.c.candidates(members))
	p.turn.neighbours.Unread = slices.ContainsFunc(members, (*policy.Policy).Advanced) && p.c.Late != nil && p.c.Late()
}

// endTurn records the decision, and lets other sets decide. trusted is whether the plan is carried out: otherwise it is not clear which pods the set has.
func (p *pass) endTurn(allowed *policy.Result, plan *rollout.Plan, trusted bool) {
	t, set := &p.turn, policyinput.SetOf(p.w)
	if t.of == nil {
		return
	}
	changed := false
	if t.decided = trusted && allowed.UnderWay != nil && t.in != nil; t.decided {
		allowed.Begin(t.in, plan)
		waits, held := t.in.Waits(plan)
		changed = t.of.Record(set, policy.LedgerEntry{Group: t.neighbours.Group.Name, UnderWay: allowed.UnderWay, Down: allowed.Down, Waits: waits, Held: held})
	} else if len(p.rules.Policies) == 0 && !p.rules.Unread { // what is known of it gets old: it may belong to the group again later
		t.decided, changed = true, t.of.Linger(set, p.c.unfinished(p.key, t.of.Lingering(set)))
	}
	t.of.mu.Unlock()
	if changed {
		p.c.wakeHeld(set.Namespace, t.of)
	}
	p.c.groups.release(set.Namespace, t.of)
}

// missTurn records that a pass came to no decision: no other set waits because this one goes first.
func (p *pass) missTurn() {
	set := policyinput.SetOf(p.w)
	if p.turn.decided {
		return
	}
	if l := p.c.groups.open(set.Namespace, false); l != nil {
		defer p.c.groups.release(set.Namespace, l)
		if p.turn.of == nil && groupOf(p.c.Policies.Of(set).Policies) == "" {
			p.c.quitGroup(p.key, set)
			return
		}
		l.mu.Lock()
		changed := l.Passes(set)
		l.mu.Unlock()
		if changed {
			p.c.wakeHeld(set.Namespace, l)
		}
	}
}

// leaveGroup forgets what is known of a set that is gone, belongs to no group, or is not decided about. stays is whether it still belongs to one.
func (c *Controller) leaveGroup(set policy.Set, stays bool) {
	l := c.groups.open(set.Namespace, false)
	if l == nil {
		return
	}
	defer c.groups.release(set.Namespace, l)
	l.mu.Lock()
	changed := l.Forget(set, stays)
	l.mu.Unlock()
	if changed {
		c.wakeHeld(set.Namespace, l)
	}
}

// lingerPause is how soon a set is looked at again that holds a group without a policy.
const lingerPause = 10 * time.Second

// quitGroup forgets what is known of a set to which no policy with a group applies. If its policy was deleted, the nodes in the middle of its update hold the group until they are
// done. A policy without a group frees the group at once.
func (c *Controller) quitGroup(key clustercache.Key, set policy.Set) {
	l := c.groups.open(set.Namespace, false)
	if l == nil {
		return
	}
	defer c.groups.release(set.Namespace, l)
	l.mu.Lock()
	var still policy.Nodes
	if nodes := l.Lingering(set); len(nodes) > 0 && len(c.Policies.Of(set).Policies) == 0 {
		still = c.unfinished(key, nodes)
	}
	changed := l.Linger(set, still)
	l.mu.Unlock()
	if len(still) > 0 {
		c.wakeAfter(key, lingerPause) // nothing else may cause a pass when a node is done
	}
	if changed {
		c.wakeHeld(set.Namespace, l)
	}
}

// unfinished returns those of the nodes in the middle of an update of a set on which it has not ended.
func (c *Controller) unfinished(key clustercache.Key, nodes policy.Nodes) policy.Nodes {
	if len(nodes) == 0 {
		return nil
	}
	buffer := c.buffers.Get().(*clustercache.Buffer)
	defer c.buffers.Put(buffer)
	s, _, known := c.Index.SnapshotInto(buffer, key, clustercache.History{}, timeOf(c.Clock.Now()))
	if !known {
		return nil
	}
	return nodes.Unfinished(&s)
}

// candidates are the sets that policies apply to and that are updated. One that another controller updates can be held by no group.
func (c *Controller) candidates(of []*policy.Policy) []policy.Candidate {
	var all []policy.Candidate
	if len(of) == 0 {
		return nil
	}
	for name := range c.dialects {
		for _, key := range c.Index.Keys(name) {
			if key.Namespace != of[0].Namespace {
				continue
			}
			w := c.Index.Workload(key)
			if w == nil || w.Deleting || w.ByPolicy == nil && c.bystander(key, w) {
				continue
			}
			for _, p := range of {
				if set := policyinput.SetOf(w); p.Selects(set) {
					all = append(all, policy.Candidate{Set: set, Created: w.Created})
					break
				}
			}
		}
	}
	return all
}

// wakeHeld asks for a pass for the sets of a namespace that wait for others of their group.
func (c *Controller) wakeHeld(namespace string, l *ledger) {
	for name := range c.dialects {
		for _, key := range c.Index.Keys(name) {
			if key.Namespace != namespace {
				continue
			}
			if w := c.Index.Workload(key); w != nil && l.holds(policyinput.SetOf(w)) {
				c.wake(key)
			}
		}
	}
}

// wake asks for a pass for a set because another one has decided, or because of its images or analyses.
func (c *Controller) wake(key clustercache.Key) {
	if c.Wake != nil {
		c.Wake(key, 0)
		return
	}
	c.Enqueue(key)
}

// wakeAfter asks for a pass for a set after a time.
func (c *Controller) wakeAfter(key clustercache.Key, after time.Duration) {
	if c.Wake != nil {
		c.Wake(key, after)
		return
	}
	c.queue.AddAfter(key, after)
}

// holds reports whether a set waits for others.
func (l *ledger) holds(set policy.Set) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Held(set)
}
