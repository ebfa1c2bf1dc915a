// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	defaults "k8s.io/kubernetes/pkg/apis/apps/v1"
)

// The resources that there are. All but nodes are in one namespace.
const (
	pods      = "pods"
	nodes     = "nodes"
	sets      = "daemonsets"
	revisions = "controllerrevisions"
	namespace = "ns"
)

// object is any object that is stored. What is stored is never changed, only replaced.
type object interface {
	runtime.Object
	metav1.Object
}

// state is a cluster at rest.
type state struct {
	at     time.Time
	tables map[string]map[string]object
	// version and created are the last resourceVersion and the number of objects that were ever created.
	version, created int
	// failed counts the pods that have failed, by node and image.
	failed map[string]int
	// misled is a note for a difference that is accepted: the sets that it may come from. Where nothing misleads, unmistaken is set.
	misled     map[string]bool
	unmistaken bool
	// grown is set where a pod that is ready has been so for long.
	grown bool
	admission
}

// cluster is an API server in memory: resource versions, watches, preconditions, generations, graceful deletion.
type cluster struct {
	mu sync.Mutex
	state
	// events are all that happened here, by resource.
	events   map[string][]event
	watchers map[string][]*watcher
	// lost counts for how long a pod has been on a node that is gone.
	lost map[types.UID]int
}

type event struct {
	version int
	watch.Event
}

// newCluster is one that goes on from a state, which stays as it is.
func newCluster(from *state) *cluster {
	c := &cluster{state: *from, events: map[string][]event{}, watchers: map[string][]*watcher{}, lost: map[types.UID]int{}}
	c.tables = map[string]map[string]object{pods: {}, nodes: {}, sets: {}, revisions: {}}
	for name, table := range from.tables {
		c.tables[name] = maps.Clone(table)
	}
	c.failed = map[string]int{}
	maps.Copy(c.failed, from.failed)
	c.misled = map[string]bool{}
	return c
}

// leave is the state that the cluster is in.
func (c *cluster) leave() *state {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := newCluster(&c.state).state
	s.misled = maps.Clone(c.misled)
	s.at = time.Now()
	return &s
}

// commit stores an object, or removes it, and tells whoever watches.
func (c *cluster) commit(resource string, kind watch.EventType, o object) object {
	c.version++
	o.SetResourceVersion(strconv.Itoa(c.version))
	if kind == watch.Deleted {
		delete(c.tables[resource], o.GetName())
	} else {
		c.tables[resource][o.GetName()] = o
	}
	e := event{c.version, watch.Event{Type: kind, Object: o}}
	c.events[resource] = append(c.events[resource], e)
	for _, w := range c.watchers[resource] {
		w.events <- e.Event
	}
	return o
}

func now() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }

func notFound(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
}

func conflict(resource, name, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: resource}, name, errors.New(why))
}

func (c *cluster) get(resource, name string) (object, error) {
	if o := c.tables[resource][name]; o != nil {
		return o.DeepCopyObject().(object), nil
	}
	return nil, notFound(resource, name)
}

func (c *cluster) create(resource string, o object) (object, error) {
	o = stored(resource, o)
	c.created++
	if o.GetName() == "" {
		o.SetName(fmt.Sprintf("%s%05d", o.GetGenerateName(), c.created))
	}
	if c.tables[resource][o.GetName()] != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: resource}, o.GetName())
	}
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	o.SetUID(types.UID(fmt.Sprintf("uid-%d", c.created)))
	o.SetCreationTimestamp(now())
	if resource != nodes {
		o.SetNamespace(namespace)
	}
	if p, ok := o.(*corev1.Pod); ok {
		p.Status.Phase, p.Generation = corev1.PodPending, 1
	}
	if ds, ok := o.(*appsv1.DaemonSet); ok {
		ds.Generation, ds.Annotations = 1, map[string]string{appsv1.DeprecatedTemplateGeneration: "1"}
		defaults.SetObjectDefaults_DaemonSet(ds)
	}
	return c.commit(resource, watch.Added, o).DeepCopyObject().(object), nil
}

// replace writes an object that was made of the stored one.
func (c *cluster) replace(resource, subresource string, o object) (object, error) {
	old := c.tables[resource][o.GetName()]
	switch {
	case old == nil:
		return nil, notFound(resource, o.GetName())
	case o.GetUID() != old.GetUID():
		return nil, conflict(resource, o.GetName(), "the uid differs")
	case o.GetResourceVersion() != "" && o.GetResourceVersion() != old.GetResourceVersion():
		return nil, conflict(resource, o.GetName(), "the object has been modified")
	}
	next := stored(resource, o)
	if ds, ok := next.(*appsv1.DaemonSet); ok {
		next = setAfter(old.(*appsv1.DaemonSet), ds, subresource)
	}
	if equality.Semantic.DeepEqual(next, old) {
		return next, nil
	}
	return c.commit(resource, watch.Modified, next).DeepCopyObject().(object), nil
}

// setAfter is what a write makes of a set: of the status alone, or of all but the status; then the generations count what changed.
func setAfter(old, asked *appsv1.DaemonSet, subresource string) *appsv1.DaemonSet {
	if subresource == "status" {
		next := old.DeepCopy()
		next.Status = asked.Status
		return next
	}
	asked.Status = old.Status
	defaults.SetObjectDefaults_DaemonSet(asked)
	if !equality.Semantic.DeepEqual(old.Spec.Template, asked.Spec.Template) {
		n, _ := strconv.Atoi(old.Annotations[appsv1.DeprecatedTemplateGeneration])
		asked.Annotations[appsv1.DeprecatedTemplateGeneration] = strconv.Itoa(n + 1)
	}
	if !equality.Semantic.DeepEqual(old.Spec, asked.Spec) {
		asked.Generation++
	}
	return asked
}

// patch sends a strategic merge patch.
func (c *cluster) patch(resource, subresource, name string, patch []byte) (object, error) {
	old, err := c.get(resource, name)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(before, patch, old)
	if err != nil {
		return nil, err
	}
	next := newOf(resource)
	if err := json.Unmarshal(merged, next); err != nil {
		return nil, err
	}
	return c.replace(resource, subresource, next)
}

// stored is an object as it comes out of a store: empty maps and lists are none.
func stored(resource string, o object) object {
	raw, err := json.Marshal(o)
	next := newOf(resource)
	if err == nil {
		err = json.Unmarshal(raw, next)
	}
	if err != nil {
		panic(err) // every object can be encoded
	}
	return next
}

func newOf(resource string) object {
	switch resource {
	case pods:
		return &corev1.Pod{}
	case nodes:
		return &corev1.Node{}
	case sets:
		return &appsv1.DaemonSet{}
	default:
		return &appsv1.ControllerRevision{}
	}
}

// grace is how long a pod may take to end, after which the kubelet ends it.
const grace = int64(30)

// delete deletes gracefully what runs on a node; everything else at once, without what it owns.
func (c *cluster) delete(resource, name string, o metav1.DeleteOptions) error {
	old, err := c.get(resource, name)
	if err != nil {
		return err
	}
	if o.Preconditions != nil && o.Preconditions.UID != nil && *o.Preconditions.UID != old.GetUID() {
		return conflict(resource, name, "the uid differs")
	}
	if o.Preconditions != nil && o.Preconditions.ResourceVersion != nil && *o.Preconditions.ResourceVersion != old.GetResourceVersion() {
		return conflict(resource, name, "the resourceVersion differs")
	}
	p, isPod := old.(*corev1.Pod)
	if !isPod || p.Spec.NodeName == "" || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		c.commit(resource, watch.Deleted, old)
		return nil
	}
	if p.DeletionTimestamp == nil {
		end := metav1.NewTime(now().Add(time.Duration(grace) * time.Second))
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &end, new(grace)
		c.commit(resource, watch.Modified, p)
	}
	return nil
}

// names are the names of a table, sorted.
func (s *state) names(resource string) []string {
	return slices.Sorted(maps.Keys(s.tables[resource]))
}

// list is a typed list of everything in a table, or of one namespace.
func (c *cluster) list(resource, space string) runtime.Object {
	meta := metav1.ListMeta{ResourceVersion: strconv.Itoa(c.version)}
	switch resource {
	case pods:
		return &corev1.PodList{ListMeta: meta, Items: allOf[corev1.Pod](c, resource, space)}
	case nodes:
		return &corev1.NodeList{ListMeta: meta, Items: allOf[corev1.Node](c, resource, space)}
	case sets:
		return &appsv1.DaemonSetList{ListMeta: meta, Items: allOf[appsv1.DaemonSet](c, resource, space)}
	default:
		return &appsv1.ControllerRevisionList{ListMeta: meta, Items: allOf[appsv1.ControllerRevision](c, resource, space)}
	}
}

func allOf[T any](c *cluster, resource, space string) []T {
	var all []T
	for _, name := range c.names(resource) {
		if space != "" && c.tables[resource][name].GetNamespace() != space {
			continue
		}
		all = append(all, *any(c.tables[resource][name].DeepCopyObject()).(*T))
	}
	return all
}

// at looks at a stored object, which must not be changed; nil when there is none.
func at[T any](s *state, resource, name string) *T {
	o, _ := any(s.tables[resource][name]).(*T)
	return o
}

// watcher is one watch of one resource.
type watcher struct {
	c        *cluster
	resource string
	events   chan watch.Event
}

// room is how many events a watch can be behind; a step has far fewer.
const room = 10000

// watch shows everything that happened after a version, and all that happens.
func (c *cluster) watch(resource, after string) (watch.Interface, error) {
	version, err := strconv.Atoi(after)
	if err != nil {
		return nil, apierrors.NewBadRequest("a watch begins at a resourceVersion: " + err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &watcher{c: c, resource: resource, events: make(chan watch.Event, room)}
	for _, e := range c.events[resource] {
		if e.version > version {
			w.events <- e.Event
		}
	}
	c.watchers[resource] = append(c.watchers[resource], w)
	return w, nil
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *watcher) Stop() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	all := w.c.watchers[w.resource]
	if i := slices.Index(all, w); i >= 0 {
		w.c.watchers[w.resource] = slices.Delete(all, i, i+1)
		close(w.events)
	}
}
