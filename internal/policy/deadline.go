// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// lacking reports whether a node of a wave lacks its pod.
func (r *run) lacking(k int) bool {
	for i := range r.s.Nodes {
		if r.lacks(k, i) {
			return true
		}
	}
	return false
}

// lacks reports whether a wave waits for an available pod on a node, so that the time counts for its deadline. A node that has joined, and has had no pod yet, does not count.
// Nor does one that lacks it for another reason than the revision: the node is not ready, the API server refuses to delete or change the old pod, or it cannot call a webhook
// that a create needs, or gives no clear answer, or others use up a quota, or the room of the node. Nor does one that was broken before, and where the API server refuses to create a pod.
func (r *run) lacks(k, i int) bool {
	n := &r.s.Nodes[i]
	if !r.ofWave(k, i) || r.standing[i].Available || r.out.Watch.nodes[n.Name].joined {
		return false
	}
	switch f := n.Refusal; {
	case r.lacksRoom(r.podOf(n)):
		return false
	case f == nil:
	case (!f.Denied || r.usedUpByOthers(n)) && (r.bare(i) || r.surgeRefused(i)), r.standing[i].AwaitsUpdate && (r.changeRefused(i) || len(n.Pods) == 0 && r.out.Watch.nodes[n.Name].before):
		return false
	}
	return n.Ready || r.podOf(n) != nil
}

// surgeRefused reports whether the API server refuses to create the pod of the wanted revision on a node that keeps its older pod until then, because the set surges.
func (r *run) surgeRefused(i int) bool {
	f := r.s.Nodes[i].Refusal
	return r.surges() && r.standing[i].AwaitsUpdate && f != nil && f.Of == 0
}

// changeRefused reports whether the API server refuses to change or delete the pod of a node. The label that asks for its preDelete hook is one of these changes; without a surge, no pod is created next to it.
func (r *run) changeRefused(i int) bool {
	n := &r.s.Nodes[i]
	return n.Refusal != nil && (n.Refusal.Of != 0 || len(n.Pods) > 0 && !r.surges())
}

// stopTime stops the time of the deadline of a wave until the next decision if no update of the wave has begun or may start, whatever the reason. Otherwise, the next decision is
// at the deadline at the latest.
func (r *run) stopTime() {
	if r.places == nil || r.out.Watch == nil {
		return // no wave was judged
	}
	var held func(i int) bool
	for k := range r.p.Waves {
		name := r.p.Waves[k].Name
		if !r.out.Watch.lacked[name] {
			continue
		}
		if held == nil { // of the pace, only what others use up counts
			s := *r.s
			s.Gate = &rollout.Gate{Holds: r.holds, InFlight: -1, Starts: -1}
			held = s.Held()
		}
		counts := !r.s.Set.Paused && r.proceeds(k, held)
		r.out.Watch.lacked[name] = counts
		if rest := r.p.Failure.WaveDeadline - r.out.Status.Waves[k].Rolled.Duration; counts && rest > 0 {
			r.wakeAt(r.s.Now.Add(rest))
		}
	}
}

// proceeds reports whether the update of a node that a wave lacks has begun, or may start, if nothing else holds it. Where the owners of nodes decide, none starts before they do.
func (r *run) proceeds(k int, held func(i int) bool) bool {
	waits, used := false, r.othersUsePace(k)
	for i := range r.s.Nodes {
		switch {
		case !r.lacks(k, i):
		case !r.standing[i].AwaitsUpdate:
			return true
		case held(i), enforcement(&r.s.Set) == v1alpha1.EnforcementAnnouncements:
		case used:
		case !r.serves(i): // its update needs no budget
			return true
		default:
			waits = true
		}
	}
	if !waits {
		return false
	}
	idle, most := r.budget(func(i int) bool {
		joined := r.out.Watch.nodes[r.s.Nodes[i].Name].joined // no pod has ever been available there: the node may be the reason
		excused := r.ofWave(k, i) && !r.lacks(k, i)           // it lacks its pod for another reason than the revision
		return (joined || excused) && r.charged(i) || r.idle(place(k), i)
	})
	return idle < most
}

// othersUsePace reports whether the nodes that count in the pace are as many as it allows, without those that a wave lacks.
func (r *run) othersUsePace(k int) bool {
	g, others := r.out.Gate, 0
	if g == nil || g.InFlight < 0 {
		return false
	}
	paced := r.in.Snapshot.Paced()
	for i := range r.s.Nodes {
		if r.standing[i].InFlight && !g.Absent[i] && !r.lacks(k, i) && paced(i) {
			others++
		}
	}
	return others >= g.InFlight
}
