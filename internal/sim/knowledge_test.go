// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/apply"
)

// known is what a manager has been shown.
type known struct {
	pods  map[types.UID]*corev1.Pod
	nodes map[string]*corev1.Node
	set   *unstructured.Unstructured
	// doomed are the pods that it has asked to be deleted, and was not told that they stay.
	doomed map[types.UID]bool
}

func (k known) clone() known {
	return known{pods: maps.Clone(k.pods), nodes: maps.Clone(k.nodes), set: k.set, doomed: maps.Clone(k.doomed)}
}

// knowledge is kept beside a manager, and made of the same events and answers in a simpler way than its index.
type knowledge struct {
	known
	s      *sim
	podsRV int
	// buried are pods that a read has not found any more.
	buried map[types.UID]bool
	// then is what was known when the pass began.
	then known
	// version counts what was learned, so that it can be seen whether a pass learned anything.
	version, thenVersion int
	// limit and surge are the largest budgets that were known during the pass.
	limit, surge int
}

func newKnowledge(s *sim) *knowledge {
	return &knowledge{s: s, buried: map[types.UID]bool{}, known: known{pods: map[types.UID]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, doomed: map[types.UID]bool{}}}
}

// firm is whether something was so when the pass began, and still is.
func (k *knowledge) firm(test func(known) bool) bool {
	return k.then.set != nil && k.set != nil && test(k.then) && test(k.known)
}

// alone is whether no other live pod is known on the node of a pod.
func (k *knowledge) alone(uid types.UID) bool {
	return k.firm(func(k known) bool { return k.pods[uid] != nil && len(k.others(uid, nodeOf(k.pods[uid]), k.alive)) == 0 })
}

// begin notes what is known at the beginning of a pass.
func (k *knowledge) begin() {
	k.then, k.limit, k.surge = k.clone(), 0, 0
	k.thenVersion = k.version
	k.measure()
}

// measure takes the budgets of now into account.
func (k *knowledge) measure() {
	k.version++
	if k.set == nil {
		return
	}
	limit, surge := budgetsOf(k.set, k.desired())
	k.limit, k.surge = max(k.limit, limit), max(k.surge, surge)
}

func (k *knowledge) event(of kind, e event) {
	switch o := e.object.(type) {
	case *corev1.Pod:
		k.podsRV = e.rv
		if e.gone {
			delete(k.pods, o.UID)
		} else {
			k.pod(o)
		}
	case *corev1.Node:
		delete(k.nodes, o.Name)
		if !e.gone {
			k.nodes[o.Name] = o
		}
	case *unstructured.Unstructured:
		k.set = o
		if e.gone {
			k.set = nil
		}
	}
	if of != ofRevisions {
		k.measure()
	}
}

// list is what a new list shows: all that there is, for it is read from the world as it is now.
func (k *knowledge) list(of kind, w *world) {
	switch of {
	case ofPods:
		k.pods, k.podsRV = map[types.UID]*corev1.Pod{}, w.rv
		for _, p := range w.pods() {
			k.pods[p.UID] = p
		}
	case ofNodes:
		k.nodes = map[string]*corev1.Node{}
		for _, n := range w.nodes() {
			k.nodes[n.Name] = n
		}
	case ofSets:
		k.set = w.set()
	}
	k.measure()
}

// pod takes the newer one of two versions.
func (k *knowledge) pod(p *corev1.Pod) {
	if old := k.pods[p.UID]; !k.buried[p.UID] && old == nil || old != nil && versionOf(p) > versionOf(old) {
		k.pods[p.UID] = p
	}
}

func versionOf(p *corev1.Pod) int {
	n, _ := strconv.Atoi(p.ResourceVersion)
	return n
}

// sent is told of a request before it is answered.
func (k *knowledge) sent(r *request) {
	if r.action.verb == "delete" {
		k.doomed[types.UID(r.action.uid)] = true
	}
}

// answered is told of the answer to a request.
func (k *knowledge) answered(r *request, value any, err error) {
	switch v := value.(type) {
	case *corev1.Pod:
		k.read(v)
	case []*corev1.Pod:
		for _, p := range v {
			k.read(p)
		}
	}
	a := r.action
	if a.verb == "patch" && apierrors.IsNotFound(err) {
		k.missed(a.pod, nil)
	}
	if (a.verb == "get" || a.verb == "see") && (err == nil || apierrors.IsNotFound(err)) {
		k.missed(a.pod, value)
		if p, ok := value.(*corev1.Pod); ok && a.verb == "get" && p.DeletionTimestamp == nil && k.s.unclear[p.UID] == "" {
			delete(k.doomed, p.UID) // a delete that was refused in other words
		}
	}
	if a.verb == "delete" && apply.OfDelete(err) == apply.Refused && k.s.unclear[types.UID(a.uid)] == "" {
		delete(k.doomed, types.UID(a.uid))
	}
	k.measure()
}

// missed buries the pods of that name that a read has not found: what the view still has to show of them is over.
func (k *knowledge) missed(name string, found any) {
	there, _ := found.(*corev1.Pod)
	for uid, p := range k.pods {
		if p.Name == name && (there == nil || there.UID != uid) {
			k.buried[uid] = true
			delete(k.pods, uid)
		}
	}
}

// read takes a pod from the answer of a request, unless the view has gone past it and knows no such pod any more.
func (k *knowledge) read(p *corev1.Pod) {
	if k.pods[p.UID] != nil || versionOf(p) > k.podsRV {
		k.pod(p.DeepCopy())
	}
}

// on are the pods of the set on a node that have not ended.
func (k known) on(node string) []*corev1.Pod {
	var list []*corev1.Pod
	for _, p := range k.pods {
		if nodeOf(p) == node && ownedBy(p, k.set) && !ended(p) {
			list = append(list, p)
		}
	}
	return list
}

// alive is whether a pod is known to be live, and no delete of ours is under way.
func (k known) alive(p *corev1.Pod) bool { return live(p) && !k.doomed[p.UID] }

// fit is what the set's template and the known node make of each other, for the templates and taints of this simulation.
func (k known) fit(node string) fit { return fitOf(k.set, k.nodes[node]) }

// fit is whether a node has to run the pod, may keep it, or must not have it.
type fit int

const (
	mustLeave fit = iota
	mayStay
	mustRun
)

const (
	poolLabel = "pool"
	taintKey  = "sim/taint"
)

func fitOf(set *unstructured.Unstructured, n *corev1.Node) fit {
	if set == nil || n == nil {
		return mustLeave
	}
	pool, limited, _ := unstructured.NestedString(set.Object, "spec", "template", "spec", "nodeSelector", poolLabel)
	if limited && n.Labels[poolLabel] != pool {
		return mustLeave
	}
	found := mustRun
	for _, t := range n.Spec.Taints {
		switch {
		case t.Key != taintKey:
		case t.Effect == corev1.TaintEffectNoExecute:
			return mustLeave
		default:
			found = mayStay
		}
	}
	return found
}

// desired is the number of nodes that have to run a pod.
func (k known) desired() int {
	count := 0
	for name := range k.nodes {
		if k.fit(name) == mustRun {
			count++
		}
	}
	return count
}

// counts is whether a node counts for the budget.
func (k known) counts(node string) bool {
	switch k.fit(node) {
	case mustRun:
		// OpenYurt leaves nodes out that are not ready.
		return !isEdge(k.set) || nodeReady(k.nodes[node])
	case mayStay:
		return len(k.on(node)) > 0 && !isKruise(k.set) && !isEdge(k.set)
	default:
		return false
	}
}

// renewedNodes are the nodes that have to run a pod and have a live one of the newest revision.
func (k known) renewedNodes() int {
	count := 0
	for name := range k.nodes {
		newest := func(p *corev1.Pod) bool { return k.alive(p) && imageOf(p) == imageOfSet(k.set) && !preparing(p) }
		if k.fit(name) == mustRun && slices.ContainsFunc(k.on(name), newest) {
			count++
		}
	}
	return count
}
