// SPDX-License-Identifier: Apache-2.0

package pullstore

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
)

// selection selects the pods that a job follows. Jobs with the same selection, such as jobs for several images of one set, share a watch.
type selection struct{ namespace, selector string }

// runningPodFields are the fields of pods that are on a node and have not ended.
func runningPodFields() string {
	return fields.AndSelectors(
		fields.OneTermNotEqualSelector("spec.nodeName", ""),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	).String()
}

// Pods are those that jobs follow. A cluster has many pods, and a job follows few: the API server selects them, and of each no more is
// kept than its name and its node. Make them with NewPods.
type Pods struct {
	client kubernetes.Interface
	// Changed is called for each job when its nodes become known or change. It must not block, and must be set before the first call of Nodes.
	Changed func(job types.NamespacedName)

	mu         sync.Mutex
	selections map[types.NamespacedName]selection
	pods       map[selection]*selectedPods
	wg         sync.WaitGroup
}

// NewPods returns the pods of a cluster.
func NewPods(c kubernetes.Interface) *Pods {
	return &Pods{
		client: c, Changed: func(types.NamespacedName) {},
		selections: map[types.NamespacedName]selection{}, pods: map[selection]*selectedPods{},
	}
}

// Nodes are those on which a pod of the namespace of a job runs that the selector matches; known is false until they have been read. The
// watch that begins with it ends with ctx, or with End; Nodes and End must not be called concurrently for one job.
func (f *Pods) Nodes(ctx context.Context, job types.NamespacedName, selector *metav1.LabelSelector) (nodes map[string]bool, known bool) {
	matcher, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		f.End(job)
		return nil, true // refused at admission; to choose nothing is the only safe thing
	}
	s := selection{namespace: job.Namespace, selector: matcher.String()}
	f.mu.Lock()
	defer f.mu.Unlock()
	if was, ok := f.selections[job]; ok && was != s {
		f.unfollow(job)
	}
	f.selections[job] = s
	if p := f.pods[s]; p != nil {
		return p.follow(job)
	}
	p := newSelectedPods(f.Changed)
	f.pods[s] = p
	nodes, known = p.follow(job) // before the first event
	f.watch(ctx, s, p)
	return nodes, known
}

// End stops following the pods of a job.
func (f *Pods) End(job types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unfollow(job)
}

// Wait returns when all watches have ended, which they do after their context is cancelled.
func (f *Pods) Wait() { f.wg.Wait() }

func (f *Pods) unfollow(job types.NamespacedName) {
	s, ok := f.selections[job]
	if !ok {
		return
	}
	delete(f.selections, job)
	if p := f.pods[s]; p.unfollow(job) {
		p.stop()
		delete(f.pods, s)
	}
}

// watch starts the watch of a selection.
func (f *Pods) watch(ctx context.Context, s selection, p *selectedPods) {
	watching, stop := context.WithCancel(ctx)
	p.stop = stop
	pods := f.client.CoreV1().Pods(s.namespace)
	restrict := func(o *metav1.ListOptions) {
		o.LabelSelector, o.FieldSelector = s.selector, runningPodFields()
		if o.ResourceVersion == "0" {
			o.ResourceVersion = "" // see newInformer
		}
	}
	lister := toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			restrict(&o)
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			restrict(&o)
			return pods.Watch(ctx, o)
		},
	}, f.client)
	r := toolscache.NewReflectorWithOptions(lister, &corev1.Pod{}, p, toolscache.ReflectorOptions{Name: "pullstore/pods"})
	f.wg.Go(func() { r.RunWithContext(watching) })
}

// selectedPods is the store of a watch.
type selectedPods struct {
	changed func(job types.NamespacedName)
	stop    context.CancelFunc

	mu    sync.Mutex
	known bool
	jobs  map[types.NamespacedName]bool
	pods  map[string]*podsOnNode // by name
	nodes map[string]*podsOnNode
}

// podsOnNode counts pods of a node.
type podsOnNode struct {
	node string
	pods int
}

// podOnNode is a pod while a list is streamed; without a node it does not count.
type podOnNode struct{ pod, node string }

var _ toolscache.TransformingStore = (*selectedPods)(nil)

func newSelectedPods(changed func(types.NamespacedName)) *selectedPods {
	return &selectedPods{
		changed: changed, jobs: map[types.NamespacedName]bool{}, pods: map[string]*podsOnNode{}, nodes: map[string]*podsOnNode{},
	}
}

func (s *selectedPods) follow(job types.NamespacedName) (nodes map[string]bool, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[job] = true
	if !s.known {
		return nil, false
	}
	nodes = make(map[string]bool, len(s.nodes))
	for name := range s.nodes {
		nodes[name] = true
	}
	return nodes, true
}

// unfollow returns whether no job follows any more.
func (s *selectedPods) unfollow(job types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.jobs, job)
	return len(s.jobs) == 0
}

func placeOf(obj any) podOnNode {
	switch p := obj.(type) {
	case podOnNode:
		return p
	case *corev1.Pod:
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			return podOnNode{pod: p.Name}
		}
		return podOnNode{pod: p.Name, node: p.Spec.NodeName}
	default:
		return podOnNode{}
	}
}

// Transformer implements cache.TransformingStore.
func (s *selectedPods) Transformer() toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if _, ok := obj.(*corev1.Pod); ok {
			return placeOf(obj), nil
		}
		return obj, nil
	}
}

// Add implements cache.ReflectorStore.
func (s *selectedPods) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *selectedPods) Update(obj any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := placeOf(obj); s.put(p.pod, p.node) {
		s.notify()
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *selectedPods) Delete(obj any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.put(placeOf(obj).pod, "") {
		s.notify()
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *selectedPods) Replace(list []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	news, there := !s.known, make(map[string]bool, len(list))
	for _, obj := range list {
		p := placeOf(obj)
		there[p.pod] = true
		news = s.put(p.pod, p.node) || news
	}
	for name := range s.pods {
		if !there[name] {
			news = s.put(name, "") || news
		}
	}
	if s.known = true; news {
		s.notify()
	}
	return nil
}

// Resync implements cache.ReflectorStore; there is nothing to do.
func (s *selectedPods) Resync() error { return nil }

// put records the node of a pod, "" for none, and reports whether a node has got its first pod, or lost its last one.
func (s *selectedPods) put(pod, node string) (news bool) {
	was := s.pods[pod]
	if was != nil && was.node == node {
		return false
	}
	if was != nil {
		delete(s.pods, pod)
		if was.pods--; was.pods == 0 {
			delete(s.nodes, was.node)
			news = true
		}
	}
	if pod == "" || node == "" {
		return news
	}
	on := s.nodes[node]
	if on == nil {
		on = &podsOnNode{node: node}
		s.nodes[node] = on
		news = true
	}
	on.pods++
	s.pods[pod] = on
	return news
}

func (s *selectedPods) notify() {
	for job := range s.jobs {
		s.changed(job)
	}
}
