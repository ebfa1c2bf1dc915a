// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// steps holds back the nodes of the active wave that come in a later step of its growth, or in a later group of nodes. The nodes
// come in the order in which the set updates them.
func (r *run) steps(k int) {
	w, topology := &r.p.Waves[k], r.p.TopologyKey
	if w.Start == nil && topology == "" {
		return
	}
	nodes, begun := r.inOrder(k)
	more := 0
	if w.Start != nil {
		f := front{nodes: nodes, done: r.done}
		end := f.grown(w, begun, int(r.gone[k]), begun > 0 || r.decided(v1alpha1.Promote, w.Name) != nil)
		if end == 0 && len(nodes) > 0 {
			r.stallBefore(k, NodesGone, r.desertedText(k))
			return
		}
		more = end - begun
	}
	begins := func(i int) bool { // within the step
		if w.Start == nil || r.began[i] == place(k) {
			return true
		}
		more--
		return more >= 0
	}
	hold := func(i int) {
		if r.holds[i] = rollout.WaitWave; begins(i) {
			r.holds[i] = rollout.WaitOrder
		}
	}
	var groups []string // of the nodes
	if topology != "" {
		nodes, groups = r.grouped(nodes, topology)
	}
	done := front{nodes: nodes, done: r.done}
	elsewhere := r.busy()
	for at, i := range nodes {
		if len(groups) > 0 && elsewhere(groups[at]) && !r.standing[i].UnderWay {
			hold(i)
			continue
		}
		if groups != nil && at > 0 && groups[at] != groups[at-1] && !done.reaches(at) {
			for _, i := range nodes[at:] {
				hold(i)
			}
			return
		}
		if !begins(i) {
			r.holds[i] = rollout.WaitWave
		}
	}
}

// inOrder returns the members of a wave that grows, or whose nodes are in groups, and how many of them have begun: a node that joins does not come before these.
func (r *run) inOrder(k int) (nodes []int, begun int) {
	nodes, later := make([]int, 0, r.waves[k].nodes+r.waves[k].absent), []int(nil)
	for j := range r.s.Nodes {
		i := j
		if r.s.Set.Descending {
			i = len(r.s.Nodes) - 1 - j
		}
		switch {
		case r.places[i] != place(k) || !member(r.s, &r.s.Nodes[i]):
		case r.began[i] == place(k) || r.p.Waves[k].Start == nil:
			nodes = append(nodes, i)
		default:
			later = append(later, i)
		}
	}
	return append(nodes, later...), len(nodes)
}

// grouped orders nodes by the value of a label, and returns that too.
func (r *run) grouped(nodes []int, key string) ([]int, []string) {
	type labelled struct {
		group string
		node  int
	}
	all := make([]labelled, len(nodes))
	for at, i := range nodes {
		all[at] = labelled{r.in.Labels[i][key], i}
	}
	compare := func(a, b labelled) int { return strings.Compare(a.group, b.group) }
	if !slices.IsSortedFunc(all, compare) {
		slices.SortStableFunc(all, compare)
	}
	groups := make([]string, len(nodes))
	for at := range all {
		nodes[at], groups[at] = all[at].node, all[at].group
	}
	return nodes, groups
}

// grown is how many nodes of a wave may begin: with a start of 2 and a factor of 2 first 2, then 6, then 14. Nodes that are gone were the first ones. A step of
// which nothing else is left holds the others, unless goesOn.
func (f *front) grown(w *Wave, begun, gone int, goesOn bool) int {
	all := len(f.nodes) + gone
	step := max(w.Start.Of(all), 1)
	end := step
	for end < all && (end > gone || goesOn) && f.reaches(max(end-gone, 0)) {
		step = min(step*w.Factor, all)
		end += step
	}
	return max(min(end, all)-gone, begun)
}

// done reports whether a node is done or left out.
func (r *run) done(i int) bool { return r.isLeftOut(i) || r.standing[i].Available }

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

// busy returns a function that reports whether an update is under way in another zone than this one, in whichever wave: a node that was left out in its turn may come back
// in a zone whose turn has passed.
func (r *run) busy() (elsewhere func(zone string) bool) {
	first, some, several := "", false, false
	for i := range r.s.Nodes {
		if r.p.TopologyKey != "" && r.standing[i].UnderWay && !r.isLeftOut(i) {
			zone := r.in.Labels[i][r.p.TopologyKey]
			several = several || some && zone != first
			first, some = zone, true
		}
	}
	return func(zone string) bool { return several || some && zone != first }
}

// holdLate holds the nodes of waves that have passed, which were left out and have come back, while another zone is at work, or the active wave may start updates in one. They
// do not hold the active wave: it may be that they cannot be updated. Of several zones of such nodes, one is updated at a time.
func (r *run) holdLate(active int) {
	key := r.p.TopologyKey
	if key == "" {
		return
	}
	var late []int
	for i := range r.s.Nodes {
		if k := r.places[i]; k != nowhere && k < place(active) && r.standing[i].AwaitsUpdate && !r.standing[i].UnderWay && !r.isLeftOut(i) {
			late = append(late, i)
		}
	}
	if len(late) == 0 {
		return
	}
	elsewhere, turn := r.busy(), r.in.Labels[late[0]][key]
	for _, i := range late {
		turn = min(turn, r.in.Labels[i][key])
	}
	for _, i := range late {
		if zone := r.in.Labels[i][key]; zone != turn || elsewhere(zone) || r.startsElsewhere(active, zone) {
			r.holds[i] = rollout.WaitOrder
		}
	}
}

// startsElsewhere reports whether a wave may start updates in another zone.
func (r *run) startsElsewhere(k int, zone string) bool {
	for i := range r.s.Nodes {
		if r.places[i] == place(k) && r.holds[i] == rollout.NotEvaluated && r.standing[i].AwaitsUpdate && !r.isLeftOut(i) && r.in.Labels[i][r.p.TopologyKey] != zone {
			return true
		}
	}
	return false
}
