// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"maps"
	"slices"

	"everynode.dev/everynode/internal/rollout"
)

// begun are the nodes that have had a pod of the revision in an attempt, or have lost the old one for it, in the waves that take a number of nodes or that grow. Such a node keeps its place in its
// wave, and no other node takes that place when it is gone: otherwise a revision that destroys its nodes would reach one node after the other. Of other waves, they are those that went down before they
// had the new pod, as long as that lasts: another manager does not see why they have none.
type begun struct {
	// of identifies the template (run.identity): rollouts of different templates may have the same number.
	of              string
	number, attempt int64
	// nodes are in the order of their names. They include those that are gone.
	nodes []begunNode
	// lost is the number of such nodes of each wave that are not in nodes: another node has the name now, or an earlier manager has seen them vanish.
	lost map[string]int32
}

// begunNode is one of them. joined is 0 if only its name is known.
type begunNode struct {
	name, wave string
	joined     rollout.Time
}

// maxBegun is up to how many nodes of a wave the status names those on which the update has begun.
const maxBegun = 50

// limited reports whether a wave does not take all its nodes at once.
func (w *Wave) limited() bool { return w.Count > 0 || w.Percent > 0 || w.Start != nil }

// earlierBegun returns what the last decision has passed on about the attempt, or else what the status says, which is fresh.
func (r *run) earlierBegun() (_ begun, fresh bool) {
	of := r.identity(r.template)
	if m := r.in.Memory; m != nil && m.begun.of == of && m.begun.number == r.number() && m.begun.attempt == r.begun {
		return m.begun, false
	}
	was := begun{of: of, number: r.number(), attempt: r.begun, lost: map[string]int32{}}
	if r.last == nil {
		return was, true
	}
	for i := range r.last.Waves {
		w := &r.last.Waves[i]
		was.lost[w.Name] = w.Gone
		for _, name := range w.Begun {
			was.nodes = append(was.nodes, begunNode{name: name, wave: w.Name})
		}
	}
	slices.SortFunc(was.nodes, func(a, b begunNode) int { return cmp.Compare(a.name, b.name) })
	return was, true
}

// findBegun finds out which nodes have begun, and how many of them are gone from their wave.
func (r *run) findBegun() {
	was, fresh := r.earlierBegun()
	r.began, r.gone, r.away = make([]place, len(r.s.Nodes)), make([]int32, len(r.p.Waves)), make([]int32, len(r.p.Waves))
	r.apart = map[int]place{}
	for i := range r.began {
		r.began[i] = nowhere
	}
	waves := r.waveIndexes()
	removed, at := 0, 0
	remove := func(j int, lost int32) { // what the last decision has passed on does not change
		if removed++; removed == 1 {
			was.lost, was.nodes = maps.Clone(was.lost), slices.Clone(was.nodes)
		}
		was.lost[was.nodes[j].wave] += lost
		was.nodes[j].name = ""
	}
	for j := range was.nodes {
		b := &was.nodes[j]
		for at < len(r.s.Nodes) && r.s.Nodes[at].Name < b.name {
			at++
		}
		k, known := waves[b.wave]
		if fresh && at < len(r.s.Nodes) && r.s.Nodes[at].Name == b.name {
			b.joined = r.s.Nodes[at].Joined
		}
		there := at < len(r.s.Nodes) && r.s.Nodes[at].Name == b.name && !r.s.Nodes[at].Gone
		another := there && b.joined != 0 && b.joined != r.s.Nodes[at].Joined
		switch {
		case known && !r.p.Waves[k].limited() && (!there || another || !wentDownMeanwhile(r.s, &r.s.Nodes[at]) || !r.p.Waves[k].matches(r.in.Labels[at])):
			remove(j, 0)
		case another:
			remove(j, 1)
		case !known:
		case there && member(r.s, &r.s.Nodes[at]) && r.p.Waves[k].matches(r.in.Labels[at]):
			r.began[at] = place(k)
		case there && member(r.s, &r.s.Nodes[at]): // a user has changed its labels, or the wave
		case there && wentDownMeanwhile(r.s, &r.s.Nodes[at]) && r.p.Waves[k].matches(r.in.Labels[at]):
			r.keepNeeded(at, place(k))
		case there: // it may come back, also under another manager
			r.apart[at], r.gone[k], r.away[k] = place(k), r.gone[k]+1, r.away[k]+1
		default:
			r.gone[k]++
		}
	}
	r.keepDown()
	for wave, lost := range was.lost {
		if k, known := waves[wave]; known {
			r.gone[k] += lost
		}
	}
	if removed > 0 {
		was.nodes = slices.DeleteFunc(was.nodes, func(b begunNode) bool { return b.name == "" })
	}
	r.out.Memory.begun = was
}

// waveIndexes are the waves by name.
func (r *run) waveIndexes() map[string]int {
	waves := make(map[string]int, len(r.p.Waves))
	for k := range r.p.Waves {
		waves[r.p.Waves[k].Name] = k
	}
	return waves
}

// wentDownMeanwhile reports whether a node on which the update has begun is not ready, or was not a moment ago, before it has its new pod. Kubernetes taints such a node, so most sets need no pod there any more.
func wentDownMeanwhile(s *rollout.Snapshot, n *rollout.Node) bool {
	return isDown(s, n) && !slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool { return !p.Deleting })
}

// keepDown keeps the nodes of other waves that went down during the rollout, after its update had taken their pod. noteBegun notes them, so that another manager knows of them. A node that the
// target excludes gets no next pod.
func (r *run) keepDown() {
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if n.Fit != rollout.MayStay || r.onlyKept(i) || n.Last != r.s.Set.Update || r.began[i] != nowhere || !wentDownMeanwhile(r.s, n) || n.Since < r.start() {
			continue
		}
		if _, away := r.apart[i]; !away {
			r.keepNeeded(i, nowhere)
		}
	}
}

// keepNeeded lets a node keep its place, and count as if the set still needed a pod there: the update has taken its pod, so its wave waits for it like for one that goes down with the revision. The actions of the
// set are decided from its Snapshot, which does not change.
func (r *run) keepNeeded(i int, k place) {
	if r.s == r.in.Snapshot {
		r.charging = r.s.Charged()
		s := *r.s
		s.Nodes = slices.Clone(s.Nodes)
		r.s, r.needed = &s, s.Progress()
	}
	r.began[i], r.s.Nodes[i].Fit = k, rollout.MustRun
	r.standing[i] = r.needed(i)
	if !r.s.Nodes[i].Ready {
		r.leaveOutDown(i)
	}
}

// noteBegun adds the nodes on which the update has begun since the last decision, in the waves up to the active one, and of waves that take all their nodes at once those that are down before they have their new pod.
func (r *run) noteBegun(active int) {
	var more []begunNode
	for i := range r.s.Nodes {
		n, k := &r.s.Nodes[i], r.places[i]
		if k == nowhere || k > place(active) || r.began[i] != nowhere || !member(r.s, n) || !r.p.Waves[k].limited() && !wentDownMeanwhile(r.in.Snapshot, &r.in.Snapshot.Nodes[i]) {
			continue
		}
		if hasTarget(r.s, n) || n.Last == r.s.Set.Update && r.standing[i].UnderWay { // its old pod is being deleted, or is gone
			r.began[i] = k
			more = append(more, begunNode{name: n.Name, wave: r.p.Waves[k].Name, joined: n.Joined})
		}
	}
	if b := &r.out.Memory.begun; len(more) > 0 {
		b.nodes = append(slices.DeleteFunc(slices.Clone(b.nodes), func(was begunNode) bool { // it was in another wave
			_, again := slices.BinarySearchFunc(more, was.name, func(b begunNode, name string) int { return cmp.Compare(b.name, name) })
			return again
		}), more...)
		slices.SortFunc(b.nodes, func(x, y begunNode) int { return cmp.Compare(x.name, y.name) })
	}
}

// nameBegun names in the status the nodes on which the update has begun and that exist. The others are only counted.
func (r *run) nameBegun() {
	names := make([][]string, len(r.p.Waves))
	for i, k := range r.began {
		if away, is := r.apart[i]; is {
			k = away
		}
		if k != nowhere && len(names[k]) <= maxBegun {
			names[k] = append(names[k], r.s.Nodes[i].Name)
		}
	}
	for k := range r.out.Status.Waves {
		w := &r.out.Status.Waves[k]
		if w.Begun, w.Gone = names[k], r.gone[k]-r.away[k]; len(names[k]) > maxBegun {
			w.Begun, w.Gone = nil, r.gone[k]
		}
	}
}
