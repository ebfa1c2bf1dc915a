// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"everynode.dev/everynode/internal/dialect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/rollout"
)

// herd is an API server in memory with several sets and many nodes, and the whole loop at work on it, in virtual time.
type herd struct {
	t     *testing.T
	index *clustercache.Index
	c     *Controller
	// took is how long the server takes for a write of a pod.
	took time.Duration

	mu        sync.Mutex
	rv        int
	sets      map[string]*unstructured.Unstructured
	revisions map[string]*appsv1.ControllerRevision
	pods      map[string]*corev1.Pod
	// writes are those of pods: when each was sent, and for which set.
	writes   []write
	busy     int
	most     int // busy at once
	passes   map[string][]time.Time
	statuses int
	// broken, if not nil, is whether a pod never gets ready.
	broken func(p *corev1.Pod) bool
}

type write struct {
	at  time.Time
	set string
}

// herdRate is what the manager asks for unless told otherwise.
const herdRate, herdBurst, herdWorkers = 50, 100, 4

func newHerd(t *testing.T) *herd {
	h := &herd{
		t: t, took: 10 * time.Millisecond, sets: map[string]*unstructured.Unstructured{}, revisions: map[string]*appsv1.ControllerRevision{},
		pods: map[string]*corev1.Pod{}, passes: map[string][]time.Time{},
	}
	h.index = clustercache.NewIndex(func(key clustercache.Key) { h.c.Enqueue(key) })
	limit := flowcontrol.NewTokenBucketRateLimiter(herdRate, herdBurst)
	h.c = New(Options{
		Dialects: []dialect.Dialect{{
			Source: dialect.Source{Dialect: "native", Digest: native.Digest}, StatusPatch: native.StatusPatch, GVK: nativeGVK, Texts: nativeTexts(),
			MayWrite: func() bool { return true },
		}},
		Index: h.index, Clock: clock.RealClock{}, Events: &record.FakeRecorder{}, Observer: herdObserver{unobserved{}, h}, Workers: herdWorkers,
		Revisions: herdRevisions{h}, Sets: herdSets{h},
		Executor: &executor.Executor{
			Index: h.index, Pods: herdPods{h}, Events: &record.FakeRecorder{}, Clock: clock.RealClock{}, Count: func(string, apply.Answer) {},
			Pace: executor.NewPace(clock.RealClock{}, limit.Wait, executor.Sleep),
		},
	})
	return h
}

func (h *herd) next() string {
	h.rv++
	return strconv.Itoa(h.rv)
}

func (h *herd) addSet(name string) { h.addSetIn("ns", name) }

func (h *herd) addSetIn(namespace, name string) {
	ds := &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "img:v1"}}},
			},
		},
	}
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ds)
	if err != nil {
		h.t.Fatal(err)
	}
	h.mu.Lock()
	h.sets[name] = &unstructured.Unstructured{Object: obj}
	h.sets[name].SetResourceVersion(h.next())
	h.mu.Unlock()
	h.see(name)
}

func (h *herd) see(name string) {
	h.mu.Lock()
	digest := native.Digest(h.sets[name].DeepCopy().Object)
	h.mu.Unlock()
	h.index.PutSet(clustercache.Key{Dialect: "native", Namespace: digest.Namespace, Name: name}, &digest)
}

// turn shows that nodes are ready or not, all within a second.
func (h *herd) turn(first, nodes int, ready bool) {
	for i := range nodes {
		h.mu.Lock()
		rec := clustercache.Node{Name: fmt.Sprintf("n%04d", first+i), RV: h.next(), Ready: ready}
		h.mu.Unlock()
		h.index.PutNode(rec)
		time.Sleep(time.Second / time.Duration(nodes))
	}
}

// created are how many pods each set has, in the order of the names of the sets.
func (h *herd) created(before time.Time) []int {
	count := map[string]int{}
	for name := range h.sets {
		count[name] = 0
	}
	for _, w := range h.writes {
		if w.at.Before(before) {
			count[w.set]++
		}
	}
	var all []int
	for _, n := range count {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// fastest is the largest number of writes within d.
func (h *herd) fastest(d time.Duration) int {
	most, first := 0, 0
	for i, w := range h.writes {
		for h.writes[first].at.Add(d).Before(w.at) {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// run has the loop work until f returns.
func (h *herd) run(f func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.c.Run(ctx)
	}()
	f()
	cancel()
	<-ended
}

// A thousand nodes join within a second, and each has to run twenty sets: what is written is bounded, and shared fairly, and the
// number of passes follows the work and not the events.
func TestAHerdOfNodes(t *testing.T) {
	const sets, nodes = 20, 1000
	synctest.Test(t, func(t *testing.T) {
		h := newHerd(t)
		for i := range sets {
			h.addSet(fmt.Sprintf("set-%02d", i))
		}
		h.run(func() {
			time.Sleep(time.Minute) // until nothing is left to do without nodes
			if n := h.countAnew(); n != 0 {
				t.Errorf("%d pods without nodes", n)
			}
			began := time.Now()
			h.turn(0, nodes, true)
			h.await(sets*nodes, 10*time.Minute)
			took := time.Since(began)
			if least := time.Duration(sets*nodes-herdBurst) * time.Second / herdRate; took > least*11/10 {
				t.Errorf("done after %v, the rate allows %v", took, least)
			}
			h.judge(sets, nodes, began)
		})
	})
}

// A zone goes and comes back: no pod is touched, and the passes are bounded by time, not by the number of nodes.
func TestAZoneThatComesBack(t *testing.T) {
	const sets, nodes, zone = 5, 300, 200
	synctest.Test(t, func(t *testing.T) {
		h := newHerd(t)
		for i := range sets {
			h.addSet(fmt.Sprintf("set-%02d", i))
		}
		h.run(func() {
			h.turn(0, nodes, true)
			h.await(sets*nodes, 10*time.Minute)
			time.Sleep(time.Minute)
			for _, ready := range []bool{false, true} {
				h.countAnew()
				h.turn(0, zone, ready)
				time.Sleep(time.Minute)
				h.mu.Lock()
				for name, passes := range h.passes {
					if len(passes) > int(time.Second/coalesce)+5 {
						t.Errorf("ready %v: %s had %d passes", ready, name, len(passes))
					}
				}
				if h.statuses > sets*4 {
					t.Errorf("ready %v: %d status writes", ready, h.statuses)
				}
				h.mu.Unlock()
			}
			if n := h.countAnew(); n != sets*nodes {
				t.Errorf("%d pods were written", n-sets*nodes)
			}
		})
	})
}

// countAnew forgets passes and status writes, and is how many pods were written so far.
func (h *herd) countAnew() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.passes)
	h.statuses = 0
	return len(h.writes)
}

// await waits until that many pods were created, and a little longer.
func (h *herd) await(pods int, limit time.Duration) {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Second) {
		h.mu.Lock()
		n := len(h.writes)
		h.mu.Unlock()
		if n >= pods {
			return
		}
	}
	h.t.Fatalf("%d writes of %d after %v", len(h.writes), pods, limit)
}

func (h *herd) judge(sets, nodes int, began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.fastest(time.Second); n > herdBurst+herdRate+herdRate/10 {
		h.t.Errorf("%d writes within a second", n)
	}
	if h.most > 32 {
		h.t.Errorf("%d writes at once, at a rate that needs one or two", h.most)
	}
	if len(h.writes) != sets*nodes {
		h.t.Errorf("%d writes, want %d", len(h.writes), sets*nodes)
	}
	total := 0
	for name, passes := range h.passes {
		total += len(passes)
		if inBurst := len(slices.DeleteFunc(slices.Clone(passes), func(at time.Time) bool { return at.Sub(began) > 2*time.Second })); inBurst > 5 {
			h.t.Errorf("%s: %d passes while the nodes joined", name, inBurst)
		}
		if wait := passes[0].Sub(began); wait > 10*time.Second {
			h.t.Errorf("%s: the first pass came after %v", name, wait)
		}
	}
	for _, part := range []int{20, 10, 4, 2} {
		at := h.writes[len(h.writes)/part].at
		if n := h.created(at); n[0]*2+executor.BatchOfMany < n[len(n)-1] { // one set may be a batch ahead
			h.t.Errorf("a part of 1/%d was done after %v, and one set had %d pods, another %d: %v", part, at.Sub(began), n[0], n[len(n)-1], n)
		}
	}
	h.t.Logf("%d passes, %d writes at once at most, %d status writes, %v", total, h.most, h.statuses, h.writes[len(h.writes)-1].at.Sub(began))
}

type herdObserver struct {
	unobserved
	h *herd
}

func (o herdObserver) Decided(key clustercache.Key, _ *rollout.Snapshot, _ *rollout.Plan, _ time.Duration) {
	o.h.mu.Lock()
	defer o.h.mu.Unlock()
	o.h.passes[key.Name] = append(o.h.passes[key.Name], time.Now())
}

type herdPods struct{ h *herd }

func (f herdPods) Create(_ context.Context, u *unstructured.Unstructured) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p); err != nil {
		return nil, err
	}
	h := f.h
	h.mu.Lock()
	h.writes = append(h.writes, write{time.Now(), p.Labels["app"]})
	h.busy++
	h.most = max(h.most, h.busy)
	h.mu.Unlock()
	time.Sleep(h.took)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy--
	if h.pods[p.Name] != nil {
		h.t.Errorf("pod %s is created twice", p.Name)
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "pods"}, p.Name)
	}
	p.UID, p.ResourceVersion, p.Status.Phase = types.UID("uid-"+p.Name), h.next(), corev1.PodPending
	p.CreationTimestamp = metav1.Now()
	h.pods[p.Name] = p
	h.seePod(p)
	time.AfterFunc(time.Second, func() { h.ready(p) })
	return p.DeepCopy(), nil
}

// ready is what the kubelet says of a pod a moment later.
func (h *herd) ready(p *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil && h.broken(p) {
		return
	}
	p.ResourceVersion, p.Status.Phase = h.next(), corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	h.seePod(p)
}

// seePod is the watch of pods: under the lock, so that it shows them in the order of their versions.
func (h *herd) seePod(p *corev1.Pod) {
	if rec, ours := h.index.PodFrom(p); ours {
		h.index.PutPod(rec)
	}
}

func (f herdPods) Delete(_ context.Context, _, name string, _ metav1.Preconditions) error {
	f.h.t.Errorf("pod %s is deleted", name)
	return nil
}

func (f herdPods) Get(_ context.Context, _, name string) (*corev1.Pod, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
}

func (f herdPods) GetSince(ctx context.Context, namespace, name, _ string) (*corev1.Pod, error) {
	return f.Get(ctx, namespace, name)
}

func (f herdPods) Find(context.Context, string, string) (*corev1.Pod, string, error) {
	return nil, "", nil
}

func (f herdPods) List(context.Context, string, labels.Selector, func(*corev1.Pod)) error { return nil }

func (f herdPods) Patch(_ context.Context, patch executor.PodPatch) (*corev1.Pod, error) {
	f.h.t.Errorf("pod %s is patched", patch.Pod)
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, patch.Pod)
}

type herdRevisions struct{ h *herd }

func (f herdRevisions) Create(_ context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	r = r.DeepCopy()
	r.UID, r.ResourceVersion = types.UID("rev-"+r.Name), f.h.next()
	f.h.revisions[r.Name] = r
	return r.DeepCopy(), nil
}

func (f herdRevisions) Get(_ context.Context, _, name string) (*appsv1.ControllerRevision, error) {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	if r := f.h.revisions[name]; r != nil {
		return r.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "controllerrevisions"}, name)
}

func (f herdRevisions) List(context.Context, string, labels.Selector, func(*appsv1.ControllerRevision)) error {
	return nil
}

func (f herdRevisions) Patch(ctx context.Context, _, name string, _ []byte) (*appsv1.ControllerRevision, error) {
	return f.Get(ctx, "", name)
}

func (f herdRevisions) Delete(context.Context, string, string, types.UID) error { return nil }

type herdSets struct{ h *herd }

func (f herdSets) Get(_ context.Context, key clustercache.Key) (*unstructured.Unstructured, error) {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	return f.h.sets[key.Name].DeepCopy(), nil
}

func (f herdSets) PatchStatus(_ context.Context, key clustercache.Key, patch []byte) (*unstructured.Unstructured, error) {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	f.h.statuses++
	w := &world{set: f.h.sets[key.Name], rv: f.h.rv}
	err := w.patchStatusStrategically(patch)
	f.h.rv = w.rv
	return f.h.sets[key.Name].DeepCopy(), err
}
