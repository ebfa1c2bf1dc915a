// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

const (
	namespace = "ns"
	setName   = "ds"
	// grace is the grace period of pods in seconds.
	grace = 30
)

// kind is one resource; each has a log of its own, and a view of it in each manager.
type kind int

const (
	ofPods kind = iota
	ofNodes
	ofRevisions
	ofSets
	// ofPolicies and ofApprovals are there in a run with rollouts only.
	ofPolicies
	ofApprovals
	kinds
)

func (k kind) String() string {
	return [...]string{"pods", "nodes", "revisions", "sets", "policies", "approvals"}[k]
}

// event is one line of a log: an object as it became, or as it was when it went.
type event struct {
	rv     int
	object metav1.Object
	gone   bool
}

// world is the API server: the objects that there are, and the logs. An object in a log is never changed again.
type world struct {
	now   time.Time
	rv    int
	state [kinds]map[string]metav1.Object
	logs  [kinds][]event
	// born counts the pods that each node ever had, for their UIDs: those have to mean the same when other steps are left out.
	born map[string]int
	// merge is how the status of a set is patched.
	merge func(set *unstructured.Unstructured, patch []byte) (map[string]any, error)
	// closed is why the API server refuses creates of pods; nil if it does not.
	closed error
	// policy refuses writes for the pods of one node; mutates is whether a webhook changes new pods.
	policy  *policy
	mutates bool
	// guards refuse writes as well, several at a time; strips is what a webhook takes from new pods.
	guards []*guard
	strips string
	// webhook is one that takes its time, lease the lease of slow writes.
	webhook *webhook
	lease   *coordinationv1.Lease
	// quota is how many pods may be there, 0 if as many as anybody wants; limits is whether a LimitRange gives them resources. undefined is whether there is
	// no definition of the set's kind. skew is how wrong the clock of the API server is.
	quota             int
	limits, undefined bool
	skew              time.Duration
	// since is where in the logs the store was restored for the last time.
	since [kinds]int
}

func newWorld() *world {
	w := &world{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), rv: 100, born: map[string]int{}}
	for k := range kinds {
		w.state[k] = map[string]metav1.Object{}
	}
	return w
}

// put makes object, which nobody else holds, the newest version.
func (w *world) put(k kind, object metav1.Object) {
	w.rv++
	object.SetResourceVersion(strconv.Itoa(w.rv))
	w.state[k][object.GetName()] = object
	w.logs[k] = append(w.logs[k], event{rv: w.rv, object: object})
}

func (w *world) remove(k kind, name string) {
	object := copyOf(w.state[k][name])
	w.rv++
	object.SetResourceVersion(strconv.Itoa(w.rv))
	delete(w.state[k], name)
	w.logs[k] = append(w.logs[k], event{rv: w.rv, object: object, gone: true})
}

func copyOf(object metav1.Object) metav1.Object {
	switch o := object.(type) {
	case *corev1.Pod:
		return o.DeepCopy()
	case *corev1.Node:
		return o.DeepCopy()
	case *appsv1.ControllerRevision:
		return o.DeepCopy()
	case *v1alpha1.RolloutPolicy:
		return o.DeepCopy()
	case *v1alpha1.RolloutApproval:
		return o.DeepCopy()
	default:
		return object.(*unstructured.Unstructured).DeepCopy()
	}
}

// all are the objects of a kind, sorted by name.
func (w *world) all(k kind) []metav1.Object {
	var list []metav1.Object
	for _, name := range slices.Sorted(maps.Keys(w.state[k])) {
		list = append(list, w.state[k][name])
	}
	return list
}

// asOf are the objects of a kind after so many events, and the newest version at which it was so; pods are sorted by UID, others by name.
func (w *world) asOf(k kind, events int) ([]metav1.Object, int) {
	then, rv := w.state[k], w.rv
	if events < len(w.logs[k]) {
		then, rv = map[string]metav1.Object{}, w.logs[k][events].rv-1
		for _, e := range w.logs[k][:events] {
			then[e.object.GetName()] = e.object
			if e.gone {
				delete(then, e.object.GetName())
			}
		}
	}
	var list []metav1.Object
	for _, name := range sorted(then) {
		list = append(list, then[name])
	}
	if k == ofPods {
		slices.SortFunc(list, func(a, b metav1.Object) int { return cmp.Compare(a.GetUID(), b.GetUID()) })
	}
	return list, rv
}

// pods are all pods of the set's namespace, sorted by UID, which is their name in the story.
func (w *world) pods() []*corev1.Pod {
	var list []*corev1.Pod
	for _, o := range w.state[ofPods] {
		if o.GetNamespace() == tenantSpace {
			continue
		}
		list = append(list, o.(*corev1.Pod))
	}
	slices.SortFunc(list, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return list
}

func (w *world) nodes() []*corev1.Node {
	var list []*corev1.Node
	for _, o := range w.all(ofNodes) {
		list = append(list, o.(*corev1.Node))
	}
	return list
}

func (w *world) node(name string) *corev1.Node {
	n, _ := w.state[ofNodes][name].(*corev1.Node)
	return n
}

func (w *world) pod(name string) *corev1.Pod {
	p, _ := w.state[ofPods][name].(*corev1.Pod)
	return p
}

func (w *world) podOf(uid types.UID) *corev1.Pod {
	for _, p := range w.pods() {
		if p.UID == uid {
			return p
		}
	}
	return nil
}

func (w *world) revision(name string) *appsv1.ControllerRevision {
	r, _ := w.state[ofRevisions][name].(*appsv1.ControllerRevision)
	return r
}

// set is the daemon set; nil if there is none.
func (w *world) set() *unstructured.Unstructured {
	u, _ := w.state[ofSets][setName].(*unstructured.Unstructured)
	return u
}

func podResource(resource string) schema.GroupResource {
	return schema.GroupResource{Resource: resource}
}

// createPod is what the API server does with a POST of a pod.
func (w *world) createPod(u *unstructured.Unstructured) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	body, _ := json.Marshal(u.Object)
	if err := json.Unmarshal(body, p); err != nil {
		return nil, err
	}
	switch {
	case w.closed != nil:
		return nil, w.closed
	case w.pod(p.Name) != nil:
		return nil, apierrors.NewAlreadyExists(podResource("pods"), p.Name)
	case w.full():
		return nil, errQuota(p.Name)
	}
	node := nodeOf(p)
	w.born[node]++
	p.UID = types.UID(fmt.Sprintf("%s-%d", node, w.born[node]))
	p.CreationTimestamp, p.Generation = metav1.NewTime(w.now.Add(w.skew)), 1
	p.Status.Phase = corev1.PodPending
	if w.mutates {
		mutate(p)
	}
	if w.limits {
		limit(p)
	}
	if !isPeers(p.Name) {
		strip(p, w.strips)
	}
	w.put(ofPods, p)
	return p.DeepCopy(), nil
}

func (w *world) getPod(name string) (any, error) {
	if p := w.pod(name); p != nil {
		return p.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(podResource("pods"), name)
}

// deletePod is what the API server does with a DELETE that has preconditions.
func (w *world) deletePod(name string, only metav1.Preconditions) error {
	p := w.pod(name)
	switch {
	case p == nil:
		return apierrors.NewNotFound(podResource("pods"), name)
	case only.UID != nil && p.UID != *only.UID:
		return apierrors.NewConflict(podResource("pods"), name, errors.New("the UID differs"))
	case only.ResourceVersion != nil && p.ResourceVersion != *only.ResourceVersion:
		return apierrors.NewConflict(podResource("pods"), name, errors.New("the resourceVersion differs"))
	}
	w.endPod(p, grace)
	return nil
}

// endPod asks for the end of a pod: at once where there is nobody to wait for.
func (w *world) endPod(p *corev1.Pod, seconds int64) {
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		seconds = 0
	}
	switch {
	case seconds == 0 && len(p.Finalizers) == 0:
		w.remove(ofPods, p.Name)
	case p.DeletionTimestamp == nil:
		p = p.DeepCopy()
		at := metav1.NewTime(w.now.Add(w.skew + time.Duration(seconds)*time.Second))
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &seconds
		w.put(ofPods, p)
	}
}

// patchPod is a strategic merge patch of a pod, or of its status.
func (w *world) patchPod(name, of string, patch []byte) (*corev1.Pod, error) {
	p := w.pod(name)
	if p == nil {
		return nil, apierrors.NewNotFound(podResource("pods"), name)
	}
	patched := &corev1.Pod{}
	if err := merged(p, patch, patched); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if patched.UID != p.UID || patched.ResourceVersion != p.ResourceVersion {
		return nil, apierrors.NewConflict(podResource("pods"), name, errors.New("the object has been modified"))
	}
	if of == "status" {
		status := patched.Status
		patched = p.DeepCopy()
		patched.Status = status
	} else {
		patched.Status = p.Status
	}
	if equality.Semantic.DeepEqual(p, patched) {
		return p.DeepCopy(), nil
	}
	if !equality.Semantic.DeepEqual(p.Spec, patched.Spec) {
		patched.Generation++
	}
	w.put(ofPods, patched)
	return patched.DeepCopy(), nil
}

func merged[T any](from *T, patch []byte, to *T) error {
	original, err := json.Marshal(from)
	if err != nil {
		return err
	}
	result, err := strategicpatch.StrategicMergePatch(original, patch, from)
	if err != nil {
		return err
	}
	return json.Unmarshal(result, to)
}

func (w *world) createRevision(r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	if w.revision(r.Name) != nil {
		return nil, apierrors.NewAlreadyExists(podResource("controllerrevisions"), r.Name)
	}
	r = r.DeepCopy()
	w.rv++ // its UID must not be that of an earlier one of this name
	r.UID, r.CreationTimestamp = types.UID(fmt.Sprintf("%s-%d", r.Name, w.rv)), metav1.NewTime(w.now)
	w.put(ofRevisions, r)
	return r.DeepCopy(), nil
}

func (w *world) patchRevision(name string, patch []byte) (*appsv1.ControllerRevision, error) {
	r := w.revision(name)
	if r == nil {
		return nil, apierrors.NewNotFound(podResource("controllerrevisions"), name)
	}
	patched := &appsv1.ControllerRevision{}
	if err := merged(r, patch, patched); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if patched.UID != r.UID || patched.ResourceVersion != r.ResourceVersion {
		return nil, apierrors.NewConflict(podResource("controllerrevisions"), name, errors.New("the object has been modified"))
	}
	w.put(ofRevisions, patched)
	return patched.DeepCopy(), nil
}

func (w *world) deleteRevision(name string, uid types.UID) error {
	r := w.revision(name)
	switch {
	case r == nil:
		return apierrors.NewNotFound(podResource("controllerrevisions"), name)
	case r.UID != uid:
		return apierrors.NewConflict(podResource("controllerrevisions"), name, errors.New("the UID differs"))
	}
	w.remove(ofRevisions, name)
	return nil
}

func (w *world) patchStatus(name string, patch []byte) (*unstructured.Unstructured, error) {
	set, _ := w.state[ofSets][name].(*unstructured.Unstructured)
	if set == nil {
		return nil, apierrors.NewNotFound(podResource("daemonsets"), name)
	}
	patched, err := w.merge(set, patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if is := (&unstructured.Unstructured{Object: patched}); is.GetUID() != set.GetUID() || is.GetResourceVersion() != set.GetResourceVersion() {
		return nil, apierrors.NewConflict(podResource("daemonsets"), name, errors.New("the object has been modified"))
	}
	if equality.Semantic.DeepEqual(set.Object["status"], patched["status"]) {
		return set.DeepCopy(), nil
	}
	set = set.DeepCopy()
	set.Object["status"] = patched["status"]
	w.put(ofSets, set)
	return set.DeepCopy(), nil
}

// editSet changes the specification as a user does; the API server counts generations.
func (w *world) editSet(change func(spec map[string]any)) {
	old := w.set()
	set := old.DeepCopy()
	change(set.Object["spec"].(map[string]any))
	if equality.Semantic.DeepEqual(set.Object["spec"], old.Object["spec"]) {
		return
	}
	set.SetGeneration(set.GetGeneration() + 1)
	template, _, _ := unstructured.NestedMap(set.Object, "spec", "template")
	before, _, _ := unstructured.NestedMap(old.Object, "spec", "template")
	if set.GetAPIVersion() == "apps/v1" && !equality.Semantic.DeepEqual(template, before) {
		annotations := set.GetAnnotations()
		annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(set.GetGeneration(), 10)
		set.SetAnnotations(annotations)
	}
	w.put(ofSets, set)
}

// changePod makes a new version of a pod, as a kubelet or another controller does.
func (w *world) changePod(p *corev1.Pod, change func(*corev1.Pod)) {
	p = p.DeepCopy()
	change(p)
	w.put(ofPods, p)
}

func (w *world) changeNode(n *corev1.Node, change func(*corev1.Node)) {
	n = n.DeepCopy()
	change(n)
	w.put(ofNodes, n)
}

// nodeOf is the node that a pod is bound to or made for.
func nodeOf(p *corev1.Pod) string {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	for _, term := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			return field.Values[0]
		}
	}
	return ""
}

// imageOf is the image of a pod, which stands for its revision.
func imageOf(p *corev1.Pod) string { return p.Spec.Containers[0].Image }

// imageOfSet is the image of the template.
func imageOfSet(set *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(set.Object, "spec", "template", "spec", "containers")
	image, _ := containers[0].(map[string]any)["image"].(string)
	return image
}

func collisions(set *unstructured.Unstructured) int64 {
	count, _, _ := unstructured.NestedInt64(set.Object, "status", "collisionCount")
	return count
}

// ownedBy is whether a set controls an object: UID, kind, group and namespace agree, for anybody can write any UID into a pod.
func ownedBy(object metav1.Object, set *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || set == nil {
		return false
	}
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	return owner.UID == set.GetUID() && owner.Kind == set.GetKind() && group == set.GroupVersionKind().Group && object.GetNamespace() == set.GetNamespace()
}

// readyOf is whether a pod is ready, and since when.
func readyOf(p *corev1.Pod) (bool, time.Time) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, time.Time{}
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

// live is whether a pod runs, or is about to, and nobody has asked for its end.
func live(p *corev1.Pod) bool { return p.DeletionTimestamp == nil && !ended(p) }

// available is whether a live pod has been ready for so long.
func available(p *corev1.Pod, minReady time.Duration, now time.Time) bool {
	ready, _ := readyOf(p)
	return live(p) && ready && !preparing(p) && !changing(p) && gatesOpen(p) && (minReady == 0 || !servesSince(p, now).Add(minReady).After(now))
}
