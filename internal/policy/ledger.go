// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"maps"
	"slices"

	"everynode.dev/everynode/internal/rollout"
)

// Ledger records for the sets of one namespace which nodes are in the middle of their update. Between See and Record of one set there must be no other
// call: two sets that decide at the same time could otherwise both start at one place. It is not safe for concurrent use. Losing it is safe: an update
// starts only when all other sets of the group have been recorded again, from what their pods show. Only a set whose policy was deleted is not waited for then. The zero value is empty.
type Ledger struct {
	sets map[ledgerKey]*LedgerEntry
	// awaited are sets that other sets have asked for while nothing was known about them.
	awaited map[ledgerKey]bool
}

type ledgerKey struct {
	advanced bool
	name     string
}

// LedgerEntry is what a set has decided.
type LedgerEntry struct {
	// Group is the name of its group.
	Group string
	// UnderWay are the nodes in the middle of their update, Waits those on which only the group keeps the set from an update.
	UnderWay, Waits Nodes
	// Down are the nodes of UnderWay that have no available pod and wait for their next update.
	Down Nodes
	// Held reports whether the set waits for any other, also for one of which nothing is known.
	Held bool
	// earlier are those of UnderWay whose update began while the set was in another group, by its name. They hold that one, too.
	earlier map[string]Nodes
}

// Candidate is a set of a group.
type Candidate struct {
	Set     Set
	Created rollout.Time
}

// before reports whether c goes before d when both wait for the same place: the older one does.
func (c *Candidate) before(d *Candidate) bool {
	return cmp.Or(cmp.Compare(c.Created, d.Created), cmp.Compare(c.Set.Name, d.Set.Name), cmp.Compare(c.Set.APIVersion(), d.Set.APIVersion())) < 0
}

func keyOf(s Set) ledgerKey { return ledgerKey{s.Advanced, s.Name} }

// See returns what a set must know of the sets of its group, in which it may be itself.
func (l *Ledger) See(c Candidate, g Group, all []Candidate) *Neighbours {
	n := &Neighbours{Group: g, Fresh: true}
	if e := l.sets[keyOf(c.Set)]; e != nil {
		n.Own, n.Fresh = e.UnderWay, false
	}
	for i := range all {
		o := &all[i]
		if keyOf(o.Set) == keyOf(c.Set) {
			continue
		}
		other := Neighbour{Set: o.Set}
		if e := l.sets[keyOf(o.Set)]; e != nil {
			other.Known, other.UnderWay, other.Down = true, e.UnderWay, e.Down
			if o.before(&c) {
				other.First = e.Waits
			}
		} else {
			if l.awaited == nil {
				l.awaited = map[ledgerKey]bool{}
			}
			l.awaited[keyOf(o.Set)] = true
		}
		n.Others = append(n.Others, other)
	}
	n.Others = append(n.Others, l.former(c, g, all)...)
	slices.SortFunc(n.Others, func(a, b Neighbour) int {
		return cmp.Or(cmp.Compare(a.Set.Name, b.Set.Name), cmp.Compare(a.Set.APIVersion(), b.Set.APIVersion()))
	})
	return n
}

// former are the sets that no policy of the group selects any more, and that are in the middle of their updates: that a policy was deleted, or names another group, ends no update.
func (l *Ledger) former(c Candidate, g Group, all []Candidate) []Neighbour {
	var others []Neighbour
	for key, e := range l.sets {
		is := func(o Candidate) bool { return keyOf(o.Set) == key }
		nodes := e.earlier[g.Name]
		if e.Group == g.Name {
			nodes = e.UnderWay
		}
		if len(nodes) > 0 && key != keyOf(c.Set) && !slices.ContainsFunc(all, is) {
			set := Set{Namespace: c.Set.Namespace, Name: key.name, Advanced: key.advanced}
			others = append(others, Neighbour{Set: set, Known: true, UnderWay: nodes, Down: both(e.Down, nodes)})
		}
	}
	return others
}

// GroupOf is the group in which the last decision of a set was made; empty for none.
func (l *Ledger) GroupOf(s Set) string {
	if e := l.sets[keyOf(s)]; e != nil {
		return e.Group
	}
	return ""
}

// Record stores the decision of a set. It reports whether other sets may start because of it; Held lists them.
func (l *Ledger) Record(s Set, is LedgerEntry) (changed bool) {
	if l.sets == nil {
		l.sets = map[ledgerKey]*LedgerEntry{}
	}
	was := l.sets[keyOf(s)]
	is.earlier = was.begunElsewhere(&is)
	l.sets[keyOf(s)] = &is
	delete(l.awaited, keyOf(s))
	return was == nil || was.Group != is.Group || !maps.Equal(was.UnderWay, is.UnderWay) || !maps.Equal(was.Down, is.Down) || !maps.Equal(was.Waits, is.Waits)
}

// begunElsewhere are the nodes that are in the middle of an update of a set, and were at its last decision, by the other groups in which it was.
func (e *LedgerEntry) begunElsewhere(is *LedgerEntry) map[string]Nodes {
	if e == nil || e.Group == is.Group && len(e.earlier) == 0 {
		return nil
	}
	all := map[string]Nodes{}
	for group, nodes := range e.earlier {
		all[group] = both(nodes, is.UnderWay)
	}
	if e.Group != is.Group {
		all[e.Group] = both(e.UnderWay, is.UnderWay)
	}
	maps.DeleteFunc(all, func(group string, nodes Nodes) bool { return group == is.Group || len(nodes) == 0 })
	return all
}

// both are the nodes that are in some, and in others too.
func both(some, others Nodes) Nodes {
	all := Nodes{}
	for name, zone := range some {
		if _, is := others[name]; is {
			all[name] = zone
		}
	}
	return all
}

// Passes records that a set could not decide, so that it is not its turn. What it has begun is not forgotten. Like Record, it reports whether other sets may start.
func (l *Ledger) Passes(s Set) (changed bool) {
	e := l.sets[keyOf(s)]
	if e == nil || len(e.Waits) == 0 {
		return false
	}
	e.Waits = nil
	return true
}

// Forget deletes what is known about a set. stays reports whether others continue to wait for it; otherwise
// it is gone or no longer belongs to a group. Like Record, it reports whether other sets may start.
func (l *Ledger) Forget(s Set, stays bool) (changed bool) {
	_, known := l.sets[keyOf(s)]
	delete(l.sets, keyOf(s))
	if stays {
		return known
	}
	changed = known || l.awaited[keyOf(s)]
	delete(l.awaited, keyOf(s))
	return changed
}

// Lingering are the nodes on which a set is in the middle of its update.
func (l *Ledger) Lingering(s Set) Nodes {
	if e := l.sets[keyOf(s)]; e != nil {
		return e.UnderWay
	}
	return nil
}

// Linger records that no policy applies to a set any more. The nodes in the middle of its update hold the group until they are done; if there are none, the set is forgotten. Like
// Record, it reports whether other sets may start.
func (l *Ledger) Linger(s Set, still Nodes) (changed bool) {
	e := l.sets[keyOf(s)]
	if e == nil || len(still) == 0 {
		return l.Forget(s, false)
	}
	return l.Record(s, LedgerEntry{Group: e.Group, UnderWay: still, Down: both(e.Down, still)})
}

// Held returns whether a set waits for others.
func (l *Ledger) Held(s Set) bool {
	e := l.sets[keyOf(s)]
	return e != nil && e.Held
}

// Empty reports whether nothing is recorded.
func (l *Ledger) Empty() bool { return len(l.sets)+len(l.awaited) == 0 }
