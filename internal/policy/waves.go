// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"everynode.dev/everynode/internal/rollout"
)

// place is the wave of a node.
type place int16

// nowhere is the place of a node that no wave can have.
const nowhere place = -1

// assign gives each node its wave: the first that matches it. Waves that take a number of nodes take nodes that existed before the revision in the order of
// their names, and then those that joined later in the order in which they did. So a node that joins takes the place of no other.
func assign(p *Policy, s *rollout.Snapshot, nodeLabels []map[string]string) (places []place, unmatched []bool) {
	a := &assignment{s: s, labels: nodeLabels, places: make([]place, len(s.Nodes))}
	for i := range a.places {
		a.places[i] = nowhere
	}
	unmatched = make([]bool, len(p.Waves))
	for k := range p.Waves {
		w := &p.Waves[k]
		if w.Count == 0 && w.Percent == 0 {
			unmatched[k] = !a.all(w, place(k))
			continue
		}
		if a.order == nil {
			a.order = seniority(s)
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
	// order is the order in which waves take members; the memory of free is reused for each wave.
	order, free []int
}

// member reports whether a node must run a pod of the set.
func member(n *rollout.Node) bool { return n.Fit == rollout.MustRun && !n.Gone }

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
			a.places[i] = k
		}
	}
	return matched || w.Selector == nil
}

// some gives a wave a number of the members that it matches, and has the same result as all.
func (a *assignment) some(w *Wave, k place) (matched bool) {
	free, total, taken := a.free[:0], 0, 0
	for _, i := range a.order {
		if !w.matches(a.labels[i]) {
			continue
		}
		total++
		if a.places[i] == nowhere {
			free = append(free, i)
		} else {
			taken++
		}
	}
	number := w.Count
	if w.Percent > 0 {
		number = rollout.Quantity{Value: w.Percent, Percent: true}.Of(total) - taken
	}
	for _, i := range spread(free, w.SpreadBy, a.labels)[:min(max(number, 0), len(free))] {
		a.places[i] = k
	}
	return total > 0 || w.Selector == nil
}

// seniority returns the members in the order in which waves take them.
func seniority(s *rollout.Snapshot) []int {
	since := rollout.Time(0)
	if u := s.Set.Update; u >= 0 && u < len(s.Revisions) {
		since = s.Revisions[u].Created
	}
	late := func(i int) rollout.Time {
		if joined := s.Nodes[i].Joined; since != 0 && joined > since {
			return joined
		}
		return 0
	}
	order := make([]int, 0, len(s.Nodes))
	for i := range s.Nodes {
		if member(&s.Nodes[i]) {
			order = append(order, i)
		}
	}
	compare := func(a, b int) int { return cmp.Compare(late(a), late(b)) }
	if !slices.IsSortedFunc(order, compare) {
		slices.SortStableFunc(order, compare)
	}
	return order
}

// spread takes nodes in turn from the groups with equal values of the labels. The groups come in the order of their first nodes.
func spread(nodes []int, by []string, nodeLabels []map[string]string) []int {
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
	out := make([]int, 0, len(nodes))
	for round := 0; len(out) < len(nodes); round++ {
		for _, g := range groups {
			if round < len(g) {
				out = append(out, g[round])
			}
		}
	}
	return out
}

// steps holds back the nodes of the active wave that come in a later step of its growth, or in a later group of nodes. The nodes
// come in the order in which the set updates them.
func (r *run) steps(k int) {
	w, topology := &r.p.Waves[k], r.p.TopologyKey
	if w.Start == nil && topology == "" {
		return
	}
	var nodes []int
	for j := range r.s.Nodes {
		i := j
		if r.s.Set.Descending {
			i = len(r.s.Nodes) - 1 - j
		}
		if r.places[i] == place(k) && member(&r.s.Nodes[i]) {
			nodes = append(nodes, i)
		}
	}
	group := func(i int) string { return r.in.Labels[i][topology] }
	if topology != "" {
		slices.SortStableFunc(nodes, func(a, b int) int { return strings.Compare(group(a), group(b)) })
	}
	end, done := len(nodes), front{nodes: nodes, done: r.done}
	if w.Start != nil {
		end = grown(w, &done)
	}
	for at, i := range nodes {
		switch {
		case at >= end:
			r.holds[i] = rollout.WaitWave
		case topology != "" && at > 0 && group(i) != group(nodes[at-1]) && !done.reaches(at):
			for _, later := range nodes[at:end] {
				r.holds[later] = rollout.WaitOrder
			}
			for _, later := range nodes[end:] {
				r.holds[later] = rollout.WaitWave
			}
			return
		}
	}
}

// grown is how many nodes of a wave have begun: with a start of 2 and a factor of 2 first 2, then 6, then 14.
func grown(w *Wave, done *front) int {
	all := len(done.nodes)
	step := max(w.Start.Of(all), 1)
	end := step
	for end < all && done.reaches(end) {
		step = min(step*w.Factor, all)
		end += step
	}
	return min(end, all)
}

// done reports whether a node is done or left out.
func (r *run) done(i int) bool { return r.left[i] || r.standing[i].Available }

// front is how far some nodes are done, in their order. It looks at each node once, so that a step or a group for each of 100,000 nodes costs no more than one for all.
type front struct {
	nodes []int
	done  func(i int) bool
	at    int
}

// reaches reports whether the first nodes are done.
func (f *front) reaches(end int) bool {
	for f.at < end && f.done(f.nodes[f.at]) {
		f.at++
	}
	return f.at >= end
}
