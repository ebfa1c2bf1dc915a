// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// leftOut is why the waves go on without a node. Such a node is in its wave, but does not count for it, nor for its soak and its deadline, until it has an available pod.
type leftOut uint8

const (
	// counted is the value of a node that is not left out.
	counted leftOut = iota
	// downForLong is one that is not ready: for longer than unreachableAfter, or by the rule of the dialect. An update that has begun on it counts nowhere.
	downForLong
	// brokenBefore is one whose pod was not available before its update, and has not been since. An update that has begun on it counts in the group until it has ended, and in the
	// pace and in the budget of an undo until it has had its time (hadItsTime): many such nodes would all be updated at once otherwise.
	brokenBefore
	// neverWell is one where no pod of the set has ever been available, because it fails or pulls its image for long. It counts like one that was broken before.
	neverWell
	// mayFail is one on which the revision has failed, but no more nodes have than may. It counts like one that was broken before.
	mayFail
)

// isLeftOut reports whether the waves go on without a node.
func (r *run) isLeftOut(i int) bool { return r.left[i] != counted }

// leaveOut notes why the waves go on without a node. The first reason remains.
func (r *run) leaveOut(i int, why leftOut) {
	if r.left[i] == counted {
		r.left[i] = why
	}
}

// leaveOutDown leaves out a node that is not ready, if it has been so for long. By the rule of the dialect,
// that is at once, unless the node went down with a pod of the target, because the target may be the reason.
func (r *run) leaveOutDown(i int) {
	n := &r.s.Nodes[i]
	lasts := r.notReadyFor(n) // also for a policy that has no limit yet
	switch limit := r.p.UnreachableAfter; {
	case limit == nil:
		if downWithTarget(r.s, n) || !r.s.Set.Unreachable.Skip && !r.s.Set.Announce {
			return
		}
	case n.Since == 0:
		return
	case r.remains(*limit - lasts):
		return
	}
	r.leaveOut(i, downForLong)
}

// flapWait is how long a node must not be ready before an undo ends without it, where the rule of the dialect leaves such nodes out at once.
const flapWait = time.Minute

// mayFlap reports whether a node that is left out has not been ready for so short that it may be ready again soon: an undo that ended without it would begin again then, each time.
func (r *run) mayFlap(i int) bool {
	n := &r.s.Nodes[i]
	return r.p.UnreachableAfter == nil && n.Since != 0 && r.remains(flapWait-r.notReadyFor(n))
}

// leaveOutBroken leaves out the nodes that were broken before their update and still are, and those where no pod has ever been available.
func (r *run) leaveOutBroken() {
	if r.failed == nil {
		return
	}
	for _, i := range r.excused {
		r.leaveOut(i, neverWell)
	}
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		w := r.out.Watch.nodes[n.Name]
		switch before := w.before && (w.uid != "" || len(n.Pods) == 0 && w.down >= r.p.Failure.NodeDeadline && (!r.standing[i].AwaitsUpdate || refused(n))); {
		case r.standing[i].Available:
		case before:
			r.leaveOut(i, brokenBefore)
		case w.joined && r.pullsForLong(&w):
			r.leaveOut(i, neverWell)
		}
	}
}

// pullsForLong reports whether the first pod of a node has waited for its image for longer than a pod may take to become available. The waves do not wait for that node, but the
// time of a pull is no failure.
func (r *run) pullsForLong(w *watched) bool {
	return w.pulls && !r.remains(r.p.Failure.NodeDeadline-w.pulled)
}

// remains reports whether a time has not ended, and then lets the next decision be at its end at the latest.
func (r *run) remains(rest time.Duration) bool {
	if rest > 0 {
		r.wakeAt(r.s.Now.Add(rest))
	}
	return rest > 0
}

// leaveOutFailed leaves out the nodes of each wave that may fail, and have. A percentage is that of all nodes of the wave, with those, and is
// rounded down: otherwise a wave of one node could never fail with 1%.
func (r *run) leaveOutFailed() {
	for k := range r.waves {
		r.waves[k].mayFail = int32(r.p.Failure.MaxFailedNodes.Down(int(r.waves[k].nodes + r.waves[k].down)))
	}
	for i, node := range r.failed {
		if node == nil || r.places[i] == nowhere || r.isLeftOut(i) || r.standing[i].Available {
			continue
		}
		n := &r.waves[r.places[i]]
		if n.failed > n.mayFail {
			continue // the wave fails
		}
		r.leaveOut(i, mayFail)
		n.absent++
		n.nodes--
		if r.standing[i].Updated {
			n.updated--
		}
	}
}

// hadItsTime reports whether the new pod of a node has had nodeDeadline to become available. A pod that the API server has refused to create since before the update gets no more.
func (r *run) hadItsTime(i int) bool {
	n := &r.s.Nodes[i]
	w := r.out.Watch.nodes[n.Name]
	return w.before && len(n.Pods) == 0 && refused(n) || !r.remains(r.p.Failure.NodeDeadline-w.age)
}

// paceless reports whether an update that has begun on a node does not count in the pace.
func (r *run) paceless(i int) bool {
	return r.isLeftOut(i) && r.standing[i].InFlight && (r.left[i] == downForLong || r.hadItsTime(i))
}

// holdMissed holds the nodes that have missed the rollout of the committed revision, and reports whether there are any: they only have pods of revisions that were made before it. They do not return from another revision.
func (r *run) holdMissed(kind rollout.VerdictKind) (found bool) {
	all := r.s.Revisions
	newer := func(p rollout.Pod) bool {
		return p.Revision >= 0 && p.Revision < len(all) && all[p.Revision].Created >= all[r.committed].Created
	}
	for i := range r.s.Nodes {
		if n := &r.s.Nodes[i]; r.isReleased(i) && r.standing[i].AwaitsUpdate && len(n.Pods) > 0 && !slices.ContainsFunc(n.Pods, newer) {
			r.holds[i], r.restricts, found = kind, true, true
		}
	}
	return found
}
