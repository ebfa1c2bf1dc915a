// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// judgeRecreate looks at the create of a pod of the newest revision where the last one had another, and no update has taken that: it begins an update, which the pace limits.
func (s *sim) judgeRecreate(r *request) {
	u, k, node, image := r.m.ruling, r.m.known, r.action.node, r.action.image
	if u == nil || !u.governed || u.most == 0 && u.single == "" || r.slow || byHand(k.then.set) || s.begun[node+" "+image] ||
		!k.firm(func(k known) bool {
			return image == k.image() && k.fit(node) == mustRun && !slices.ContainsFunc(k.on(node), k.alive)
		}) || !s.vanishedOld(r) {
		return
	}
	k.recreated[node], s.begun[node+" "+image] = true, true
	begins := maps.Clone(k.recreated)
	maps.Copy(begins, u.underWay)
	maps.Copy(begins, k.started)
	switch {
	case u.most > 0 && len(begins) > u.most:
		s.blame("pace", "%s %s: %s are in the middle of an update, and %d may be", r.m.name, r.text, sorted(begins), u.most)
	case u.single != "" && len(k.started)+len(k.recreated) > 1:
		s.blame("pace", "%s %s, and has begun the updates of %s and %s in one pass", r.m.name, r.text, sorted(k.started), sorted(k.recreated))
	}
	s.judgeInterval(r)
}

// vanishedOld is whether a manager knows the last pod that the node of a create had, and that it was of another revision of the history.
func (s *sim) vanishedOld(r *request) bool {
	k, node := r.m.known, r.action.node
	var last *corev1.Pod
	for _, e := range s.w.logs[ofPods] {
		if p := e.object.(*corev1.Pod); nodeOf(p) == node && p.Namespace == namespace && ownedBy(p, k.set) && (last == nil || p.UID == last.UID || !p.CreationTimestamp.Before(&last.CreationTimestamp)) {
			last = p
		}
	}
	if last == nil || !k.knew[last.UID] || k.nodes[node] == nil || last.CreationTimestamp.Before(&k.nodes[node].CreationTimestamp) || imageOf(last) == r.action.image {
		return false
	}
	return slices.ContainsFunc(slices.Collect(maps.Values(k.then.revisions)), func(o *appsv1.ControllerRevision) bool {
		return ownedBy(o, k.set) && imageOfRevision(o) == imageOf(last)
	})
}
