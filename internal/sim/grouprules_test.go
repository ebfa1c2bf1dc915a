// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// work are the nodes on which a set is at work, with the UID of the set: from the moment in which a write takes effect that takes an available old pod of a
// node for an update, or adds one of the newest revision to it, until the node has a pod of the newest revision that is ready, or only one pod, which is ready.
type work map[string]map[string]types.UID

func (w work) clone() work {
	all := work{}
	for name, nodes := range w {
		all[name] = maps.Clone(nodes)
	}
	return all
}

// scope is how wide the group of both sets is, as far as a manager knows; empty if they are in none together. While OpenYurt's own manager updates the set,
// no group holds it.
func (r *ruler) scope() v1alpha1.ConcurrencyScope {
	k, widest := r.m.known.known, v1alpha1.ConcurrencyScope("")
	if k.set == nil || k.peer == nil || k.set.GetDeletionTimestamp() != nil || r.m.s.yurt && isEdge(k.set) {
		return ""
	}
	for _, name := range []string{policyName, peerName} {
		p := r.policies[name]
		if p == nil || p.Spec.ConcurrencyGroup == nil {
			return ""
		}
		if rank := scopes(); rank[p.Spec.ConcurrencyGroup.Scope] > rank[widest] {
			widest = p.Spec.ConcurrencyGroup.Scope
		}
	}
	return widest
}

// scopes are how wide they are.
func scopes() map[v1alpha1.ConcurrencyScope]int {
	return map[v1alpha1.ConcurrencyScope]int{v1alpha1.ScopeNode: 1, v1alpha1.ScopeZone: 2, v1alpha1.ScopeCluster: 3}
}

// placeOf is the place of a node, for a scope.
func (s *sim) placeOf(node string, scope v1alpha1.ConcurrencyScope) string {
	switch n := s.w.node(node); {
	case scope == v1alpha1.ScopeCluster:
		return "the cluster"
	case scope == v1alpha1.ScopeZone && n != nil:
		return "zone " + n.Labels[corev1.LabelTopologyZone]
	default:
		return node
	}
}

// judgePeer looks at a write for a pod of the peer, when it is sent. Nothing but what the group forbids is asked of it.
func (s *sim) judgePeer(r *request) {
	m, a := r.m, r.action
	uid := types.UID(a.uid)
	if first := s.intents[uid]; a.verb == "delete" && first != nil && m.known.doomed[uid] && !m.known.busy[uid] {
		r.verdict = first
		return
	}
	v := &verdict{node: s.nodeOfRequest(r)}
	if r.verdict = v; a.verb == "delete" {
		s.intents[uid] = v
	}
	starts := func(k known) bool { return k.startsPeer(a, v.node) }
	if (a.verb == "delete" || a.verb == "create") && starts(m.peer.then) && starts(m.known.known) {
		v.begins = v.node
		if r.peerPass != nil {
			v.scope = r.peerPass.scope
		}
	}
}

// startsPeer is whether a write for a pod of the peer begins the update of a node: there is one live pod of an old revision, which is ready.
func (k known) startsPeer(a action, node string) bool {
	if k.peer == nil || fitOf(k.peer, k.nodes[node]) != mustRun {
		return false
	}
	var there []*corev1.Pod
	for _, p := range k.pods {
		if nodeOf(p) == node && ownedBy(p, k.peer) && k.alive(p) {
			there = append(there, p)
		}
	}
	if len(there) != 1 || imageOf(there[0]) == imageOfSet(k.peer) || a.verb == "delete" && string(there[0].UID) != a.uid {
		return false
	}
	is, _ := readyOf(there[0])
	return is && (a.verb == "delete" || a.image == imageOfSet(k.peer))
}

// beginsWork looks at a write that has taken effect, and with which a set begins to be at work on a node.
func (s *sim) beginsWork(r *request) {
	v, name := r.verdict, setName
	if r.peer {
		name = peerName
	}
	of := map[string]*unstructured.Unstructured{setName: s.w.set(), peerName: s.w.peer()}
	if v == nil || v.begins == "" || of[name] == nil || !s.cfg.grouped() {
		return
	}
	if _, is := s.work[name][v.begins]; !is && v.scope != "" {
		for _, other := range sorted(s.work) {
			for _, busy := range sorted(s.work[other]) {
				if other != name && s.placeOf(busy, v.scope) == s.placeOf(v.begins, v.scope) && !s.leavesOut(of[other], busy) {
					s.blame("group", "%s %s: %s begins on %s, while %s is at work on %s, and the group allows one in %s",
						r.m.name, r.text, name, v.begins, other, busy, s.placeOf(busy, v.scope))
				}
			}
		}
	}
	if s.work[name] == nil {
		s.work[name] = map[string]types.UID{}
	}
	s.work[name][v.begins] = of[name].GetUID()
	s.note("%s is at work on %v", name, sorted(s.work[name]))
}

// leavesOut is whether an update goes on without a node: OpenYurt leaves those out that are not ready.
func (s *sim) leavesOut(set *unstructured.Unstructured, node string) bool {
	n := s.w.node(node)
	return n == nil || set != nil && isEdge(set) && !nodeReady(n)
}

// followWork brings the nodes up to date on which sets are at work, after every step.
func (s *sim) followWork() {
	for name, set := range map[string]*unstructured.Unstructured{setName: s.w.set(), peerName: s.w.peer()} {
		for node, uid := range s.work[name] {
			if set == nil || set.GetUID() != uid || s.workEnds(set, node) {
				delete(s.work[name], node)
			}
		}
	}
}

// workEnds is whether a set is not at work on a node any more.
func (s *sim) workEnds(set *unstructured.Unstructured, node string) bool {
	var there []*corev1.Pod
	for _, p := range s.w.pods() {
		if nodeOf(p) == node && ownedBy(p, set) && live(p) {
			there = append(there, p)
		}
	}
	switch n := s.w.node(node); {
	case n == nil, fitOf(set, n) == mustLeave, fitOf(set, n) == mayStay && len(there) == 0:
		return true
	default:
		return slices.ContainsFunc(there, func(p *corev1.Pod) bool {
			return available(p, 0, s.w.now) && (len(there) == 1 || imageOf(p) == imageOfSet(set))
		})
	}
}

// begin notes that a write begins the update of its node.
func (v *verdict) begin(r *request) {
	if v.begins = v.node; r.m.ruling != nil {
		v.scope = r.m.ruling.scope
	}
}
