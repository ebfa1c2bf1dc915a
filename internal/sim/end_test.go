// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// leftover is on how many nodes old pods are left in the end: of those that the specification keeps back, and of those that wait for them.
type leftover struct{ held, waiting int }

// checkEnd: every node that has to run a pod has one that is available, and of the newest revision that it may have; no other node has one, but for
// those that may stay. The status and the conditions say what is so.
func (s *sim) checkEnd() {
	set, all := s.w.set(), s.everything()
	var n numbers
	var left leftover
	for _, node := range s.w.nodes() {
		pods, where := s.podsOn(node.Name), all.fit(node.Name)
		if where == mustLeave && len(pods) > 0 {
			s.blame("liveness", "%s must not run the pod, and has %s", node.Name, pods[0].UID)
		}
		switch {
		case where == mustRun:
			n[desired]++
			s.checkNode(all, node.Name, &n, &left)
		case len(pods) > 0:
			n[misscheduled]++
			if byHand(set) && !all.newest(pods[0]) {
				left.held++
			}
		}
	}
	s.checkOwners()
	s.checkPeer()
	n[unavailables] = n[desired] - n[availables]
	s.checkStatus(set, n)
	s.checkConditions(set, n, left)
	s.checkVerdicts()
	s.checkJobs()
	s.checkTiers(all)
}

// everything is what somebody knows who sees all of the world.
func (s *sim) everything() known {
	k := known{pods: map[types.UID]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, revisions: map[types.UID]*appsv1.ControllerRevision{}, set: s.w.set()}
	for _, o := range s.w.all(ofRevisions) {
		k.revisions[o.GetUID()] = o.(*appsv1.ControllerRevision)
	}
	for _, p := range s.w.pods() {
		k.pods[p.UID] = p
	}
	for _, n := range s.w.nodes() {
		k.nodes[n.Name] = n
	}
	return k
}

// checkNode looks at a node that has to run a pod, and counts it. What is kept back may be a pod that never works.
func (s *sim) checkNode(all known, name string, n *numbers, left *leftover) {
	pods, held, spent := s.podsOn(name), all.held(name, s.taken(all)), all.spent(s.charged(all))
	broken := len(pods) == 1 && !works(pods[0]) && (held || spent)
	if len(pods) != 1 || !s.anyAvailable(name) && !broken {
		s.blame("liveness", "%s has %d pods, or none that is available", name, len(pods))
		return
	}
	n[current]++
	if !broken {
		n[ready]++
		n[availables]++
	}
	switch {
	case all.newest(pods[0]):
		n[updated]++
	case held:
		left.held++
	case spent:
		left.waiting++
	default:
		s.blame("liveness", "%s has an old pod, %s of %s", name, pods[0].UID, imageOf(pods[0]))
	}
}

// works is whether a pod can get ready.
func works(p *corev1.Pod) bool { return !strings.HasSuffix(imageOf(p), "bad") }

// held is whether the specification keeps the old pod of a node that has to run one: somebody has to delete it by hand, the set is paused, the
// node is not selected, or as many nodes have the newest revision as the partition allows; so many more are about to.
func (k known) held(node string, more int) bool {
	l, all := limitsOf(k.set), k.desired()
	kept := l.partition(all)
	return byHand(k.set) || l.paused || l.leaves(k.nodes[node]) || kept > 0 && len(k.renewedNodes())+more >= all-kept
}

// spent is whether pods that never work, and are kept back, and so many nodes that are out use up the whole budget, so that the nodes that may go on wait
// for them. Which nodes a partition keeps back is not asked here, so their own old pods may be among them.
func (k known) spent(out int) bool {
	l, all := limitsOf(k.set), k.desired()
	limit, surge := budgetsOf(k.set, all)
	broken := 0
	for node := range k.nodes {
		if k.fit(node) == mustRun && slices.ContainsFunc(k.on(node), func(p *corev1.Pod) bool { return !works(p) }) {
			broken++
		}
	}
	if surge > 0 {
		return out >= surge
	}
	return (out > 0 || l.zone != "" || l.partition(all) > 0) && broken+out >= limit
}

// checkStatus compares the numbers of the status with a recount.
func (s *sim) checkStatus(set *unstructured.Unstructured, want numbers) {
	if got := numbersOf(set.Object); got != want {
		s.blame("status", "it says %s; counted %s", got, want)
	}
	if got, _, _ := unstructured.NestedInt64(set.Object, "status", "observedGeneration"); got != set.GetGeneration() {
		s.blame("status", "observedGeneration is %d, the generation %d", got, set.GetGeneration())
	}
}
