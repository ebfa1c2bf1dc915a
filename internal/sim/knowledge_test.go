// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/apply/executor"
)

// known is what a manager has been shown.
type known struct {
	pods  map[types.UID]*corev1.Pod
	nodes map[string]*corev1.Node
	set   *unstructured.Unstructured
	// peer is the other set of the group.
	peer *unstructured.Unstructured
	// wanted is the image that nodes return to, after that of the template has failed; empty if it has not.
	wanted string
	// revisions are those that it has been shown, of whichever set.
	revisions map[types.UID]*appsv1.ControllerRevision
	// doomed are the pods that it has asked to be deleted, and was not told that they stay.
	doomed map[types.UID]bool
}

func (k known) clone() known {
	return known{
		pods: maps.Clone(k.pods), nodes: maps.Clone(k.nodes), set: k.set, peer: k.peer, wanted: k.wanted, revisions: maps.Clone(k.revisions), doomed: maps.Clone(k.doomed),
	}
}

// knowledge is kept beside a manager, and made of the same events and answers in a simpler way than its index.
type knowledge struct {
	known
	s *sim
	// clock is that of the manager.
	clock  *wallClock
	podsRV int
	// unsettled are doomed pods of which one delete had no clear answer, and until when that may take effect. A refusal of another one says
	// nothing of it. Of the busy ones the last delete was not begun by the API server; it may be sent again in the same pass.
	unsettled map[types.UID]time.Time
	busy      map[types.UID]bool
	// buried are pods that a read has not found any more.
	buried map[types.UID]bool
	// waiting are the pods whose deletes have a place in the slow lane, sent or not; nil in a run without slow writes.
	waiting func() []types.UID
	// vacant are names that no pod had at that version of the world.
	vacant map[string]int
	knew   map[types.UID]bool // all pods that it ever knew
	// then is what was known when the pass began, later what was known when it had ended, for what is sent after that; nil before.
	then  known
	later *known
	// version counts what was learned, so that it can be seen whether a pass learned anything.
	version, thenVersion int
	// limit and surge are the largest budgets that were known during the pass.
	limit, surge int
	// free is the largest number of nodes that a partition lets go which was known during the pass. renewed are the nodes that had a pod of the newest
	// revision all the time, and started those whose update the pass has begun.
	// recreated are those whose update it has begun with a create.
	free                        int
	renewed, started, recreated map[string]bool
	// late is the last time that the manager's clock has shown during the pass; it may be set in between.
	late time.Time
	// recounts are what a status that is written now may say, and wrote is when those were sent that were written.
	recounts map[numbers]bool
	// moments are what was known at each moment of the pass.
	moments []known
	wrote   []time.Time
}

func newKnowledge(s *sim, clock *wallClock) *knowledge {
	return &knowledge{
		s: s, clock: clock, unsettled: map[types.UID]time.Time{}, busy: map[types.UID]bool{}, buried: map[types.UID]bool{}, vacant: map[string]int{}, knew: map[types.UID]bool{},
		known: known{
			pods: map[types.UID]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, revisions: map[types.UID]*appsv1.ControllerRevision{},
			doomed: map[types.UID]bool{},
		},
	}
}

// firm is whether something was so when the pass began, and still is.
func (k *knowledge) firm(test func(known) bool) bool {
	if k.later != nil && (k.later.set == nil || !test(*k.later)) {
		return false
	}
	return k.then.set != nil && k.set != nil && test(k.then) && test(k.known)
}

// alone is whether no other live pod is known on the node of a pod.
func (k *knowledge) alone(uid types.UID) bool {
	return k.firm(func(k known) bool { return k.pods[uid] != nil && len(k.others(uid, nodeOf(k.pods[uid]), k.alive)) == 0 })
}

// begin notes what is known at the beginning of a pass.
func (k *knowledge) begin() {
	for uid := range k.busy {
		delete(k.doomed, uid)
	}
	clear(k.busy)
	k.then, k.limit, k.surge = k.clone(), 0, 0
	k.late = k.clock.Now()
	k.free, k.renewed, k.started, k.recreated = 0, nil, map[string]bool{}, map[string]bool{}
	k.thenVersion, k.recounts, k.moments = k.version, map[numbers]bool{}, nil
	k.measure()
}

// measure takes the budgets of now into account.
func (k *knowledge) measure() {
	k.version++
	k.moments = append(k.moments, k.clone())
	if k.wanted != "" { // if there is nothing to return to, a decision counts pods of the template
		template := k.clone()
		template.wanted = ""
		k.moments = append(k.moments, template)
	}
	if k.set == nil {
		return
	}
	limit, surge := budgetsOf(k.set, k.desired())
	k.limit, k.surge = max(k.limit, limit), max(k.surge, surge)
	k.letGo()
	k.count()
}

// letGo takes into account how many nodes a partition lets go now, and which have a pod of the newest revision.
func (k *knowledge) letGo() {
	free := math.MaxInt
	if kept := limitsOf(k.set).partition(k.desired()); kept > 0 {
		free = k.desired() - kept
	}
	k.free = max(k.free, free)
	renewed := k.renewedNodes()
	if k.renewed != nil {
		maps.DeleteFunc(renewed, func(node string, _ bool) bool { return !k.renewed[node] })
	}
	k.renewed = renewed
}

// start notes that the pass begins the update of a node, and is whether a partition lets go fewer than have begun by now.
func (k *knowledge) start(node string) bool {
	if k.started[node] {
		return false
	}
	k.started[node] = true
	return len(k.renewed)+len(k.started) > k.free
}

func (k *knowledge) event(of kind, e event) {
	switch o := e.object.(type) {
	case *corev1.Pod:
		k.podsRV = e.rv
		if o.Namespace == tenantSpace {
			break
		}
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
		k.setOf(o, e.gone)
	case *appsv1.ControllerRevision:
		if e.gone {
			delete(k.revisions, o.UID)
		} else {
			k.reads([]metav1.Object{o})
		}
	}
	if of != ofRevisions {
		k.measure()
	}
}

// list is what a new list shows, as it was at a version of the world. What is known to be newer stays.
func (k *knowledge) list(of kind, objects []metav1.Object, rv int) {
	switch of {
	case ofPods:
		k.listPods(objects, rv)
	case ofNodes:
		k.nodes = map[string]*corev1.Node{}
		for _, o := range objects {
			k.nodes[o.GetName()] = o.(*corev1.Node)
		}
	case ofSets:
		k.set, k.peer = nil, nil
		for _, o := range objects {
			k.setOf(o.(*unstructured.Unstructured), false)
		}
	case ofRevisions:
		maps.DeleteFunc(k.revisions, func(_ types.UID, r *appsv1.ControllerRevision) bool { return versionOf(r) <= rv })
		k.reads(objects)
	}
	k.measure()
}

func (k *knowledge) setOf(o *unstructured.Unstructured, gone bool) {
	is := &k.set
	if o.GetName() == peerName {
		is = &k.peer
	}
	if *is = o; gone {
		*is = nil
	}
}

func (k *knowledge) listPods(objects []metav1.Object, rv int) {
	listed := map[types.UID]bool{}
	for _, o := range objects {
		if o.GetNamespace() == tenantSpace {
			continue
		}
		listed[o.GetUID()] = true
		k.pod(o.(*corev1.Pod))
	}
	for uid, p := range k.pods {
		if !listed[uid] && versionOf(p) <= rv {
			delete(k.pods, uid)
		}
	}
	k.podsRV = rv
}

// pod takes the newer one of two versions.
func (k *knowledge) pod(p *corev1.Pod) {
	over := k.buried[p.UID] || versionOf(p) <= k.vacant[p.Name]
	if old := k.pods[p.UID]; !over && old == nil || old != nil && versionOf(p) > versionOf(old) {
		k.pods[p.UID], k.knew[p.UID] = p, true
	}
}

// reads records the revisions in an answer or a list.
func (k *knowledge) reads(revisions []metav1.Object) {
	for _, o := range revisions {
		r := o.(*appsv1.ControllerRevision)
		if old := k.revisions[r.UID]; old == nil || versionOf(r) > versionOf(old) {
			k.revisions[r.UID] = r
		}
	}
}

func versionOf(o metav1.Object) int {
	n, _ := strconv.Atoi(o.GetResourceVersion())
	return n
}

// sent records a request before it is answered.
func (k *knowledge) sent(r *request) {
	if r.action.verb == "delete" {
		k.doomed[types.UID(r.action.uid)] = true
		delete(k.busy, types.UID(r.action.uid))
		if r.slow {
			k.unsettled[types.UID(r.action.uid)] = r.ends
		}
	}
}

// answered records the answer to a request.
func (k *knowledge) answered(r *request, value any, err error) {
	switch v := value.(type) {
	case *corev1.Pod:
		k.read(v)
	case found:
		if v.pod != nil {
			k.read(v.pod)
		} else {
			k.vacant[r.action.pod] = v.rv
			k.missed(r.action.pod, nil)
		}
	case []*corev1.Pod:
		for _, p := range v {
			k.read(p)
		}
	case *appsv1.ControllerRevision:
		k.reads([]metav1.Object{v})
	case []*appsv1.ControllerRevision:
		for _, r := range v {
			k.reads([]metav1.Object{r})
		}
	}
	a := r.action
	if (a.verb == "get" || a.verb == "see") && (err == nil || apierrors.IsNotFound(err)) {
		k.missed(a.pod, value)
		if p, ok := value.(*corev1.Pod); ok && a.verb == "get" && p.DeletionTimestamp == nil && !k.unsettled[p.UID].After(r.sent) {
			delete(k.doomed, p.UID) // a delete that was refused in other words, or has not taken effect and cannot any more
			delete(k.unsettled, p.UID)
		}
	}
	if a.verb == "get" && err != nil && !apierrors.IsNotFound(err) {
		k.unsure(a.pod)
	}
	switch {
	case a.verb == "look" && apierrors.IsNotFound(err):
		maps.DeleteFunc(k.revisions, func(_ types.UID, r *appsv1.ControllerRevision) bool { return r.Name == a.hash })
	case a.verb == "delete":
		if r.slow {
			delete(k.unsettled, types.UID(a.uid))
		}
		answer := meaning(a.verb, err)
		if r.versioned && answer == apply.Differs {
			answer = apply.Busy // it had no effect, whatever the read that follows says, so another one is another decision
		}
		k.refused(types.UID(a.uid), answer, r.lastMoment(k.s.w.now))
	case a.verb == "status" && err == nil && !r.peer:
		k.wrote = append(k.wrote, r.sent)
	}
	k.measure()
}

// refused records the answer to a delete, which may take effect until then if that is not clear.
func (k *knowledge) refused(uid types.UID, answer apply.Answer, until time.Time) {
	switch {
	case answer == apply.Unclear:
		k.unsettled[uid] = until
	case answer == apply.Done:
		delete(k.unsettled, uid)
	case !k.unsettled[uid].IsZero():
	case answer == apply.Refused:
		delete(k.doomed, uid)
	case answer == apply.Busy:
		k.busy[uid] = true
	}
}

// unsure is told that a look at a pod has failed: of a delete that was refused as if the pod were gone, or another one, it stays open what that means.
func (k *knowledge) unsure(name string) {
	for uid, p := range k.pods {
		if p.Name == name && k.doomed[uid] && !k.busy[uid] && k.unsettled[uid].IsZero() {
			k.unsettled[uid] = k.s.w.now.Add(executor.Fence)
		}
	}
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
		case t.Key != taintKey, tolerates(set):
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

// newest is whether a pod is of the newest revision of the set: it has the image. One without a hash, because a webhook has taken that away, or because a
// stranger has made it, is of the newest revision only if it has the generation of the template. And where a revision has had the name that the newest one should have, of
// an earlier set or with another template, the newest one may have another name, and pods with that of before are of no revision that counts, but for those that have the
// generation of the template, as for the native controller.
func (k known) newest(p *corev1.Pod) bool {
	switch {
	case k.wanted != "":
		return imageOf(p) == k.wanted && p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] != ""
	case isAlongside(k.set) && k.ahead(p):
		return true
	case p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] == "":
		return k.sameGeneration(p)
	case imageOf(p) != imageOfSet(k.set):
		return false
	case collisions(k.set) == 0 && !k.borrows(p), k.sameGeneration(p):
		return true
	}
	written, hash := false, p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
	for _, r := range k.revisions {
		if ownedBy(r, k.set) && imageOfRevision(r) == imageOfSet(k.set) {
			if r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] == hash {
				return true
			}
			written = true
		}
	}
	return !written && !p.CreationTimestamp.Time.Before(k.set.GetCreationTimestamp().Time)
}

// image is that of the revision that nodes are to have.
func (k known) image() string {
	if k.wanted != "" {
		return k.wanted
	}
	return imageOfSet(k.set)
}

// sameGeneration is whether a pod has the generation of the set's template, which only sets of apps/v1 have. A pod that is older than the set counts
// the templates of another one.
func (k known) sameGeneration(p *corev1.Pod) bool {
	generation := k.set.GetAnnotations()[appsv1.DeprecatedTemplateGeneration]
	return generation != "" && p.Labels[extensionsv1beta1.DaemonSetTemplateGenerationKey] == generation &&
		!p.CreationTimestamp.Time.Before(k.set.GetCreationTimestamp().Time)
}

// renewedNodes are the nodes that have to run a pod and have a live one of the newest revision.
func (k known) renewedNodes() map[string]bool {
	renewed := map[string]bool{}
	for name := range k.nodes {
		is := func(p *corev1.Pod) bool { return k.alive(p) && k.newest(p) && !preparing(p) }
		if k.fit(name) == mustRun && slices.ContainsFunc(k.on(name), is) {
			renewed[name] = true
		}
	}
	return renewed
}
