// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// place is the wave of a node.
type place int16

// nowhere is the place of a node that no wave can have.
const nowhere place = -1

// assign gives each node its wave: the first that matches it. Waves that take a number of nodes take first the nodes that have a pod of the revision, then those that existed before the rollout in the
// order of their names, and then those that joined later in the order in which they did. So a node that joins without the revision takes the place of no other. Nodes on which the update has
// begun are in the wave in which it has, and the places of those that are gone stay empty.
func (r *run) assign() (places []place, unmatched []bool) {
	p := r.p
	a := &assignment{s: r.s, labels: r.in.Labels, places: slices.Clone(r.began), gone: r.gone, counts: make([]int, len(p.Waves)), complete: make([]rollout.Time, len(p.Waves)), passed: make([]bool, len(p.Waves)), begun: make([]bool, len(p.Waves))}
	for i, k := range r.began {
		if k != nowhere && member(r.s, &r.s.Nodes[i]) {
			a.counts[k]++
			a.begun[k] = true
		}
	}
	unmatched = make([]bool, len(p.Waves))
	for k := range p.Waves {
		w := &p.Waves[k]
		if w.Count == 0 && w.Percent == 0 {
			unmatched[k] = !a.all(w, place(k))
			continue
		}
		if st := r.before(w.Name); st != nil && st.CompletedAt != nil {
			a.complete[k], a.passed[k] = rollout.Time(st.CompletedAt.UnixNano()), st.Phase == v1alpha1.WavePassed
		}
		if a.order == nil {
			a.order, a.updated = seniority(r.s, r.start())
			a.free = make([]int, 0, len(a.order))
		}
		unmatched[k] = !a.some(w, place(k))
	}
	return a.places, unmatched
}

// assignment is the state of assign.
type assignment struct {
	s      *rollout.Snapshot
	labels []map[string]string
	places []place
	// gone is for each wave the number of places that stay empty.
	gone []int32
	// counts are how many members each wave has.
	counts []int
	// complete is when each wave was complete; 0 for one that is not.
	complete []rollout.Time
	// passed reports for each wave whether it has passed, and begun whether it is known on which of its nodes the update has begun.
	passed, begun []bool
	// order is the order in which waves take members: the first ones have a pod of the revision, and updated is their number. Those before next have a wave. The memory of free is
	// reused for each wave.
	order, free   []int
	updated, next int
}

// put gives a node its wave.
func (a *assignment) put(i int, k place) {
	a.places[i] = k
	if member(a.s, &a.s.Nodes[i]) {
		a.counts[k]++
	}
}

// desired reports whether a node must run a pod of the set.
func desired(n *rollout.Node) bool { return n.Fit == rollout.MustRun && !n.Gone }

// member reports whether waves count a node: it must run a pod, or it has one of the revision and went down with it. Kubernetes taints such a node, so most sets need no pod there any
// more, but the revision may be the reason.
func member(s *rollout.Snapshot, n *rollout.Node) bool {
	return desired(n) || wentDownWith(s, n)
}

// wentDownWith reports whether a node went down with a pod of the revision, and was down until a moment ago. It is no part of member, so that the compiler can inline that: member is asked for each node many times.
//
//go:noinline
func wentDownWith(s *rollout.Snapshot, n *rollout.Node) bool {
	return isDown(s, n) && downWithTarget(s, n)
}

// taintWait is how long a node that is ready again may keep the taints of one that is not. Kubernetes removes them a moment later, and a decision may come in between.
const taintWait = time.Minute

// isDown reports whether a set may need no pod on a node only because the node is, or was a moment ago, not ready.
func isDown(s *rollout.Snapshot, n *rollout.Node) bool {
	return n.Fit == rollout.MayStay && !n.Gone && (!n.Ready || isBack(s, n))
}

// isBack reports whether a node has been ready again for so short that it may still have these taints. The time may be of the node's own clock, which may differ.
func isBack(s *rollout.Snapshot, n *rollout.Node) bool {
	return n.Ready && n.Since != 0 && s.Now.Sub(n.Since).Abs() < taintWait
}

// downWithTarget reports whether a node that is not ready, or was not a moment ago, had a pod of the revision when it went down.
func downWithTarget(s *rollout.Snapshot, n *rollout.Node) bool {
	return slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool { return p.Revision == s.Set.Update && p.Created <= n.Since })
}

func (w *Wave) matches(nodeLabels map[string]string) bool {
	return w.Selector == nil || w.Selector.Matches(labels.Set(nodeLabels))
}

// all gives a wave all nodes that it matches, and reports whether it matches any member, even one of another
// wave. Nodes that may only keep their pod are updated with their wave, but not counted.
func (a *assignment) all(w *Wave, k place) (matched bool) {
	for i := range a.s.Nodes {
		n := &a.s.Nodes[i]
		if n.Gone || n.Fit != rollout.MustRun && n.Fit != rollout.MayStay || !w.matches(a.labels[i]) {
			continue
		}
		matched = matched || n.Fit == rollout.MustRun
		if a.places[i] == nowhere {
			a.put(i, k)
		}
	}
	return matched || w.Selector == nil
}

// some gives a wave a number of the members that it matches, and has the same result as all. Those that have a pod of the revision come first, whatever spreadBy prefers: it may not be
// known yet that the update has begun on them, or not any more.
func (a *assignment) some(w *Wave, k place) (matched bool) {
	free, total, taken, matched := a.candidates(w, k)
	number := a.number(w, k, total, taken) - a.counts[k]
	take := func(nodes []int) {
		for at := 0; at < len(nodes) && number > 0; at++ {
			if i := nodes[at]; a.places[i] == nowhere && !a.closed(k, i) {
				a.put(i, k)
				number--
			}
		}
	}
	if len(w.SpreadBy) > 0 {
		updated := 0
		for updated < len(free) && hasTarget(a.s, &a.s.Nodes[free[updated]]) {
			updated++
		}
		take(free[:updated])
		free = spread(free, w.SpreadBy, a.labels, func(i int) bool { return a.places[i] == k })
	}
	take(free)
	return matched
}

// candidates returns the members that a wave matches, in the order in which it takes them, without those of other waves. total is how many members it matches, without those that have
// joined after the wave was complete, and taken how many are in waves before it.
func (a *assignment) candidates(w *Wave, k place) (free []int, total, taken int, matched bool) {
	if w.Selector == nil && len(w.SpreadBy) == 0 { // without a look at each node
		for a.next < len(a.order) && a.places[a.order[a.next]] != nowhere {
			a.next++
		}
		for _, count := range a.counts[:k] {
			taken += count
		}
		return a.order[a.next:], len(a.order) - a.lateOnes(k), taken, true
	}
	free, matched = a.free[:0], w.Selector == nil
	for _, i := range a.order {
		if !w.matches(a.labels[i]) {
			continue
		}
		matched = true
		if !a.late(k, i) {
			total++
		}
		switch at := a.places[i]; {
		case at == k, at == nowhere && !a.closed(k, i):
			free = append(free, i)
		case at != nowhere && at < k:
			taken++
		}
	}
	return free, total, taken, matched
}

// lateOnes is the number of members that have joined after a wave was complete. They are the last ones of those that have the revision, and of the others.
func (a *assignment) lateOnes(k place) (late int) {
	for _, part := range [][]int{a.order[:a.updated], a.order[a.updated:]} {
		for at := len(part); at > 0 && a.late(k, part[at-1]); at-- {
			late++
		}
	}
	return late
}

// late reports whether a node has joined after a wave was complete. It does not count for a percentage then: the wave would take further nodes, and begin again, for
// each node that joins.
func (a *assignment) late(k place, i int) bool {
	return a.complete[k] != 0 && a.s.Nodes[i].Joined >= a.complete[k]
}

// closed reports whether a wave has passed without a node that there was then: the node waits for a wave that comes later. Otherwise its update would begin at once,
// while a later wave is observed. A node that has not been ready since before that was left out, and stays in the wave until it is ready again.
func (a *assignment) closed(k place, i int) bool {
	n := &a.s.Nodes[i]
	if !a.passed[k] || n.Joined >= a.complete[k] || !n.Ready && n.Since < a.complete[k] {
		return false
	}
	// If it is not known where updates have begun, the nodes that have the revision are its members.
	return a.begun[k] || !hasTarget(a.s, n)
}

// number is how many nodes a wave takes: total are those that it matches, taken those of them that are in waves before it. Percentages are those of the nodes
// that there were when no place was empty yet, and that had joined when the wave was complete.
func (a *assignment) number(w *Wave, k place, total, taken int) int {
	gone := int(a.gone[k])
	if w.Percent == 0 {
		return w.Count - gone
	}
	if w.Selector == nil {
		for _, before := range a.gone[:k] {
			gone += int(before)
		}
	}
	return rollout.Quantity{Value: w.Percent, Percent: true}.Of(total+gone) - taken - gone
}

// seniority returns the members in the order in which waves take them: first those that have a pod of the revision, of which it returns the number too. since is when the rollout began; 0 if that is
// not known. The revision may be much older.
func seniority(s *rollout.Snapshot, since rollout.Time) (order []int, updated int) {
	late := func(i int) rollout.Time {
		if joined := s.Nodes[i].Joined; since != 0 && joined > since {
			return joined
		}
		return 0
	}
	order = make([]int, 0, len(s.Nodes))
	var others []int
	for i := range s.Nodes {
		switch n := &s.Nodes[i]; {
		case !member(s, n):
		case hasTarget(s, n):
			order = append(order, i)
		default:
			others = append(others, i)
		}
	}
	compare := func(a, b int) int { return cmp.Compare(late(a), late(b)) }
	for _, part := range [][]int{order, others} {
		if !slices.IsSortedFunc(part, compare) {
			slices.SortStableFunc(part, compare)
		}
	}
	return append(order, others...), len(order)
}

// hasTarget reports whether a node has a pod of the revision.
func hasTarget(s *rollout.Snapshot, n *rollout.Node) bool {
	for i := range n.Pods {
		if n.Pods[i].Revision == s.Set.Update {
			return true
		}
	}
	return false
}

// spread takes nodes in turn from the groups with equal values of the labels, and of each group those first that have begun. The groups come in the order of their
// first nodes.
func spread(nodes []int, by []string, nodeLabels []map[string]string, begun func(i int) bool) []int {
	if len(by) == 0 {
		return nodes
	}
	groups, at := [][]int{}, map[string]int{}
	for _, i := range nodes {
		var id strings.Builder
		for _, key := range by {
			id.WriteString(nodeLabels[i][key])
			id.WriteByte(0)
		}
		k, known := at[id.String()]
		if !known {
			k = len(groups)
			at[id.String()], groups = k, append(groups, nil)
		}
		groups[k] = append(groups[k], i)
	}
	first := func(i int) int {
		if begun(i) {
			return 0
		}
		return 1
	}
	for _, g := range groups {
		slices.SortStableFunc(g, func(a, b int) int { return cmp.Compare(first(a), first(b)) })
	}
	out := make([]int, 0, len(nodes))
	for round := 0; len(groups) > 0; round++ {
		rest := groups[:0] // the groups that have more nodes
		for _, g := range groups {
			out = append(out, g[round])
			if round+1 < len(g) {
				rest = append(rest, g)
			}
		}
		groups = rest
	}
	return out
}
