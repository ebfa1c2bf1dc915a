// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"everynode.dev/everynode/internal/rollout"
)

// A node that joins is new to the set: if no pod of the set has ever been available there, the node may be the reason. A manager that takes over must not take a node for one that has
// just joined if the manager before has deleted its pod.

// joins reports whether a node gets its first pod of the set. Another manager may have created that: then the times show it. It may also have deleted the pod of a node that this one finds
// without any: of one that was there when the rollout began, or that the status names.
func (r *run) joins(n *rollout.Node, p *rollout.Pod, known bool) bool {
	if r.joinedEarlier(n) {
		return false
	}
	if p == nil {
		unclear := r.out.Memory.unclear[n.Name] && n.Joined != 0 && n.Joined < r.beganAt()
		return len(n.Pods) == 0 && n.Last == rollout.NoRevision && !unclear
	}
	began := r.out.Status.StartedAt
	soon := n.Joined != 0 && p.Created <= n.Joined.Add(noteWait) && p.ReadySince <= p.Created.Add(noteWait)
	// A node that joined before the rollout began had a pod then, or was about to get one: it counts. Next to another controller, no decision may have seen it between its pods.
	return !known && soon && began != nil && rollout.Time(began.UnixNano()) <= min(n.Joined, p.Created) && (r.in.Watch == nil || r.s.Set.ExternalController)
}

// joinedEarlier reports whether the last status names a node that has joined since the rollout began, and has had a pod of the set.
func (r *run) joinedEarlier(n *rollout.Node) bool {
	if r.last == nil || len(r.last.JoinedWithPod) == 0 {
		return false
	}
	if r.withPod == nil {
		r.withPod = make(map[string]bool, len(r.last.JoinedWithPod))
		for _, name := range r.last.JoinedWithPod {
			r.withPod[name] = true
		}
	}
	return r.withPod[n.Name]
}

// nameJoined names in the status the nodes that have joined since the rollout began, and have had a pod before that of the target: if this manager ends after it has deleted that pod, the next
// one cannot see it. Those of earlier waves come first, because their update begins first. A node with an available pod of the target is named no more: the times of that pod show that it is not the first one.
func (r *run) nameJoined() {
	began := r.beganAt()
	if r.undoing || r.places == nil || began == 0 {
		return
	}
	var joined []int
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if n.Joined < began || n.Gone || r.standing[i].Available {
			continue
		}
		if r.joinedEarlier(n) || slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool { return p.Revision != r.s.Set.Update }) {
			joined = append(joined, i)
		}
	}
	slices.SortStableFunc(joined, func(a, b int) int { return int(r.places[a]) - int(r.places[b]) })
	for _, i := range joined[:min(len(joined), maxNames)] {
		r.out.Status.JoinedWithPod = append(r.out.Status.JoinedWithPod, r.s.Nodes[i].Name)
	}
}
