// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// outage is what stays as it is when all else has been healed: a node that is down, or one whose pods nobody releases from their hook.
type outage struct {
	node string
	hook bool
	// policy is whether the policy that refuses writes there stays.
	policy bool
}

// down is whether a node stays down.
func (o outage) down(node string) bool { return o.node != "" && o.node == node && !o.hook && !o.policy }

// holds is whether nobody releases a pod.
func (o outage) holds(p *corev1.Pod) bool { return o.hook && nodeOf(p) == o.node }

// anyOutage chooses the node: one that is down already, or, of a set with a hook in every other run, one on which a pod is prepared; else the first.
func (s *sim) anyOutage() outage {
	o, nodes := outage{}, s.w.nodes()
	if len(nodes) == 0 || s.w.set() == nil {
		return o
	}
	is := func(n *corev1.Node) bool { return !nodeReady(n) }
	if _, hooked, _ := unstructured.NestedMap(s.w.set().Object, "spec", "lifecycle", "preDelete"); hooked && s.w.rv%2 == 0 {
		o.hook = true
		is = func(n *corev1.Node) bool { return slices.ContainsFunc(s.podsOn(n.Name), preparing) }
	}
	o.node = nodes[max(0, slices.IndexFunc(nodes, is))].Name
	return o
}

// settleBut heals all but one node, and looks whether everything else comes to its end, as far as that node leaves the budget for it.
func (s *sim) settleBut(o outage) {
	s.out = o
	s.heal()
	if n := s.w.node(o.node); s.out.down(o.node) && nodeReady(n) {
		s.goesDown(n)
	}
	switch {
	case o.policy:
		s.note("the policy that refuses to %s pods of %s stays", s.w.policy.verb, o.node)
	case o.hook:
		s.note("of %s nobody releases a pod", o.node)
	default:
		s.note("%s stays down", o.node)
	}
	switch {
	case s.fair(s.fairRounds()), s.broken == nil && s.obstructed(o.node):
		s.checkOutage()
	case s.broken == nil:
		s.blame("liveness", "without %s, after %d fair rounds it has not come to rest", o.node, s.fairRounds())
	}
	s.out = outage{}
	s.note("%s is healed as well", o.node)
}

// obstructed is whether there is no rest because something is tried again every now and then: what a policy refuses, or where a pod that is not the set's cannot go from a node that is down, and may have the name that the set wants there: that is tried
// again every now and then, and there is no rest.
func (s *sim) obstructed(node string) bool {
	return s.out.policy || s.out.down(node) && slices.ContainsFunc(s.w.pods(), func(p *corev1.Pod) bool {
		return nodeOf(p) == node && p.DeletionTimestamp != nil && !ownedBy(p, s.w.set())
	})
}

// checkOutage is checkEnd but for one node: what becomes of that is not asked, only that the status tells it.
func (s *sim) checkOutage() {
	set, all := s.w.set(), s.everything()
	for _, node := range s.w.nodes() {
		pods, where := s.podsOn(node.Name), all.fit(node.Name)
		switch {
		case node.Name == s.out.node:
		case where == mustRun:
			s.checkNode(all, node.Name, &numbers{}, &leftover{})
		case where == mustLeave && len(pods) > 0:
			s.blame("liveness", "%s must not run the pod, and has %s", node.Name, pods[0].UID)
		}
	}
	n := all.recount(s.minReady(), s.w.now)
	s.checkStatus(set, n)
	if n[updated] < n[desired] && saysComplete(set) {
		s.blame("conditions", "they say that all is done; counted %s", n)
	}
}

// charged is how many nodes the outage takes from the budget, at most. OpenYurt leaves nodes out that are down, but for those that may be so because they
// were updated.
func (s *sim) charged(all known) int {
	untouched := func() bool {
		pods := s.podsOn(s.out.node)
		return len(pods) > 0 && !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !live(p) || all.newest(p) })
	}
	switch {
	case s.out.policy && s.anyAvailable(s.out.node) && len(s.podsOn(s.out.node)) == 1:
		return 0 // a refusal takes nothing from the budget
	case s.out.node == "", isEdge(all.set) && !s.out.policy && untouched():
		return 0
	default:
		return 1
	}
}

// taken is how many nodes the outage takes from those that a partition lets go: an update that has begun on that node goes on once it is healed, so no
// other node may have its place. With 3 nodes, a partition of 2 and a pod that is prepared, that is 1, and the other two keep their old pods.
func (s *sim) taken(all known) int {
	begun := func(p *corev1.Pod) bool {
		return !all.newest(p) && (preparing(p) || p.DeletionTimestamp != nil && s.intents[p.UID] != nil)
	}
	renewed := func(p *corev1.Pod) bool { return live(p) && !preparing(p) && all.newest(p) }
	pods := s.podsOn(s.out.node)
	if s.out.policy && all.fit(s.out.node) == mustRun && !slices.ContainsFunc(pods, renewed) {
		return 1 // it has its turn, and is refused
	}
	if all.fit(s.out.node) != mustRun || slices.ContainsFunc(pods, renewed) || !slices.ContainsFunc(pods, begun) {
		return 0
	}
	return 1
}

// saysComplete is whether a status says that an update has come to its end.
func saysComplete(set *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(set.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool { return c.(map[string]any)["reason"] == "Complete" })
}
