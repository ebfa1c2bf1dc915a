// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

// resource is what the API server of a rig says of one resource.
type resource struct {
	floor   string                // the version of a quorum read
	list    runtime.Object        // what a list gives, at a version of its own
	refuse  []error               // the answers to the next lists
	broken  atomic.Pointer[error] // the answer to every list while it is not nil
	lists   int                   // lists so far, without quorum reads
	watcher *watch.RaceFreeFakeWatcher
}

// rig is a Feed of an API server that a test plays. It is made in the bubble of a synctest: time is not real there.
type rig struct {
	feed      *Feed
	resources map[string]*resource
	started   chan error
	cancel    context.CancelFunc
}

var agent = clustercache.Key{Dialect: "native", Namespace: "ns", Name: "agent"}

func newRig(t *testing.T) *rig {
	t.Helper()
	daemons := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
	r := &rig{started: make(chan error, 1), resources: map[string]*resource{
		"nodes":               {list: &corev1.NodeList{}},
		"pods":                {list: &corev1.PodList{}},
		"controllerrevisions": {list: &appsv1.ControllerRevisionList{}},
		"daemonsets":          {list: &unstructured.UnstructuredList{}},
		"advanceddaemonsets":  {list: &unstructured.UnstructuredList{}},
	}}
	for name, res := range r.resources {
		res.floor = "10"
		r.relist(name, "10")
	}
	client := fake.NewClientset()
	dynamicClient := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{daemons: "DaemonSetList", advanced().Resource: "DaemonSetList"})
	for _, f := range []*clienttesting.Fake{&client.Fake, &dynamicClient.Fake} {
		f.PrependReactor("list", "*", r.answerList)
		f.PrependWatchReactor("*", r.answerWatch)
	}
	r.feed = &Feed{Index: clustercache.NewIndex(func(clustercache.Key) {}), Client: client, Dynamic: dynamicClient, Sources: []dialect.Source{{
		Dialect: "native", Resource: daemons, Kind: "DaemonSet", Digest: digest,
		Ignore: func(_, name string) bool { return name == "probe" },
	}}}
	return r
}

// advanced is an optional source.
func advanced() dialect.Source {
	return dialect.Source{
		Dialect: "kruise", Resource: schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1beta1", Resource: "advanceddaemonsets"}, Kind: "DaemonSet",
		Digest: digest, Optional: true,
	}
}

func (r *rig) answerList(action clienttesting.Action) (bool, runtime.Object, error) {
	res := r.resources[action.GetResource().Resource]
	if broken := res.broken.Load(); broken != nil {
		return true, nil, *broken
	}
	if len(res.refuse) > 0 {
		err := res.refuse[0]
		res.refuse = res.refuse[1:]
		return true, nil, err
	}
	list := res.list.DeepCopyObject()
	if action.(clienttesting.ListActionImpl).GetListOptions().Limit == 1 {
		setVersion(list, res.floor)
	} else {
		res.lists++
	}
	return true, list, nil
}

func (r *rig) answerWatch(action clienttesting.Action) (bool, watch.Interface, error) {
	res := r.resources[action.GetResource().Resource]
	res.watcher = watch.NewRaceFreeFake()
	return true, res.watcher, nil
}

func setVersion(list runtime.Object, rv string) {
	m, err := meta.ListAccessor(list)
	if err != nil {
		panic(err)
	}
	m.SetResourceVersion(rv)
}

// relist says what the next list gives.
func (r *rig) relist(name, rv string, objects ...runtime.Object) {
	list := r.resources[name].list
	if err := meta.SetList(list, objects); err != nil {
		panic(err)
	}
	setVersion(list, rv)
}

// start starts the feed; settle lets a minute pass, in which everything comes to rest that can.
func (r *rig) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() { r.started <- r.feed.Start(ctx) }()
	settle()
}

func settle() { time.Sleep(time.Minute); synctest.Wait() }

// stop ends the feed and its watches.
func (r *rig) stop() {
	r.cancel()
	r.feed.Wait()
}

func (r *rig) hasStarted() bool {
	select {
	case err := <-r.started:
		r.started <- err
		return err == nil
	default:
		return false
	}
}

// podsOf are the pods of a set as node/pod.
func (r *rig) podsOf(key clustercache.Key) []string {
	s, _, _ := r.feed.Index.Snapshot(key, clustercache.History{Revisions: []rollout.Revision{{Name: "h1"}}, Index: map[string]int{"h1": 0}, Generation: -1}, 1)
	var names []string
	for _, n := range s.Nodes {
		for _, p := range n.Pods {
			names = append(names, n.Name+"/"+p.Name)
		}
	}
	slices.Sort(names)
	return names
}

func digest(obj map[string]any) dialect.Workload {
	u := unstructured.Unstructured{Object: obj}
	rules, err := placement.Compile(map[string]any{})
	if err != nil {
		panic(err)
	}
	return dialect.Workload{Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), Selector: labels.Everything(), Placement: rules}
}

func set(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "DaemonSet",
		"metadata": map[string]any{"namespace": "ns", "name": name, "uid": name, "resourceVersion": "5"},
	}}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "5"}}
}

// podOf is a pod of the set agent.
func podOf(name, on, rv string) *corev1.Pod {
	p, controller := podAt(name, rv), true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", UID: "agent", Controller: &controller}}
	p.Spec.NodeName = on
	return p
}

func bookmark(rv string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv}}
}

// TestStartWaitsForTheFloor: the first list comes from a cache of the API server that is behind. Nothing may be decided
// before the watch has reached the version that a consistent read has shown.
func TestStartWaitsForTheFloor(t *testing.T) {
	for name, reach := range map[string]func(*resource){
		"with a bookmark": func(pods *resource) { pods.watcher.Action(watch.Bookmark, bookmark("100")) },
		"with an event":   func(pods *resource) { pods.watcher.Add(podOf("p3", "n1", "101")) },
		"with a delete":   func(pods *resource) { pods.watcher.Delete(podOf("p1", "n1", "100")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.relist("nodes", "10", node("n1"), node("n2"))
				r.relist("daemonsets", "10", set("agent"))
				r.relist("pods", "90", podOf("p1", "n1", "80"))
				pods := r.resources["pods"]
				pods.floor = "100"
				r.start(t)
				defer r.stop()
				if r.hasStarted() {
					t.Fatal("it started on a list of version 90, want 100")
				}
				pods.watcher.Add(podOf("p2", "n2", "95"))
				settle()
				if r.hasStarted() {
					t.Fatal("it started on an event of version 95, want 100")
				}
				if got := r.podsOf(agent); !slices.Equal(got, []string{"n1/p1", "n2/p2"}) {
					t.Errorf("pods %v", got)
				}
				reach(pods)
				settle()
				if !r.hasStarted() {
					t.Error("it has not started at version 100")
				}
			})
		})
	}
}

// TestRelist: a watch that the API server has forgotten begins anew with a list, and what was deleted meanwhile is gone.
func TestRelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.relist("nodes", "10", node("n1"), node("n2"))
		r.relist("daemonsets", "10", set("agent"), set("other"), set("probe"))
		r.relist("pods", "10", podOf("p1", "n1", "6"), podOf("p2", "n2", "7"))
		r.start(t)
		defer r.stop()
		if !r.hasStarted() {
			t.Fatal("it has not started although every list is at its floor")
		}
		x := r.feed.Index
		if got := len(x.Keys("native")); got != 2 || x.NodeCount() != 2 {
			t.Errorf("%d sets and %d nodes, want 2 (without the ignored one) and 2", got, x.NodeCount())
		}
		r.relist("pods", "50", podOf("p1", "n1", "6"), podOf("p3", "n2", "48"))
		r.relist("nodes", "50", node("n2"))
		r.relist("daemonsets", "50", set("agent"))
		for _, name := range []string{"pods", "nodes", "daemonsets"} {
			r.resources[name].watcher.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
		}
		settle()
		if got := r.podsOf(agent); !slices.Equal(got, []string{"n1/p1", "n2/p3"}) {
			t.Errorf("pods %v", got)
		}
		if keys := x.Keys("native"); !slices.Equal(keys, []clustercache.Key{agent}) {
			t.Errorf("sets %v", keys)
		}
		if pods, nodes := x.Versions(); pods != "50" || nodes != "50" || r.resources["pods"].lists != 2 {
			t.Errorf("pods at %s after %d lists, nodes at %s", pods, r.resources["pods"].lists, nodes)
		}
	})
}

// TestAListDoesNotUndoAnAnswer: what a write of ours was answered is newer than a list that comes from a cache.
func TestAListDoesNotUndoAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.relist("nodes", "10", node("n1"))
		r.relist("daemonsets", "10", set("agent"))
		r.start(t)
		defer r.stop()
		created, _ := r.feed.Index.PodFrom(podOf("p1", "n1", "60"))
		r.feed.Index.ObservePod(created)
		pods := r.resources["pods"]
		r.relist("pods", "50")
		pods.watcher.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
		settle()
		if got := r.podsOf(agent); !slices.Equal(got, []string{"n1/p1"}) {
			t.Errorf("pods %v after a list of version 50, want the one of version 60", got)
		}
		r.relist("pods", "70")
		pods.watcher.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
		settle()
		if got := r.podsOf(agent); len(got) != 0 {
			t.Errorf("pods %v after a list of version 70, want none", got)
		}
	})
}

// TestStartAgain: whoever has to know that the index is not older than this moment starts the feed once more.
func TestStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.relist("nodes", "10", node("n1"), node("n2"))
		r.relist("daemonsets", "10", set("agent"))
		r.relist("pods", "10", podOf("p1", "n1", "6"), podOf("p2", "n2", "7"))
		ctx, cancel := context.WithCancel(t.Context())
		r.cancel = cancel
		if err := r.feed.Start(ctx); err != nil {
			t.Fatal(err)
		}
		defer r.stop()
		settle()
		before := r.resources["pods"].watcher
		// The watch is behind: it has not said that p1 has gone, and p3 come.
		r.relist("pods", "50", podOf("p2", "n2", "7"), podOf("p3", "n1", "48"))
		r.resources["pods"].floor = "60"
		again := make(chan error, 1)
		go func() { again <- r.feed.Start(ctx) }()
		settle()
		if len(again) != 0 {
			t.Fatal("it has started again at version 50, want 60")
		}
		if !before.IsStopped() {
			t.Error("the old watch goes on beside the new one")
		}
		r.resources["pods"].watcher.Action(watch.Bookmark, bookmark("60"))
		if err := <-again; err != nil {
			t.Fatal(err)
		}
		settle()
		if got := r.podsOf(agent); !slices.Equal(got, []string{"n1/p3", "n2/p2"}) {
			t.Errorf("pods %v", got)
		}
		r.resources["nodes"].refuse = []error{apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New("no role"))}
		err := r.feed.Start(ctx)
		settle()
		if err == nil || r.resources["pods"].watcher.IsStopped() {
			t.Errorf("it cannot start again (%v), and does not go on either", err)
		}
	})
}

func TestStartRetriesWhatMayPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.resources["nodes"].refuse = []error{apierrors.NewInternalError(errors.New("etcd")), errors.New("connection refused")}
		began := time.Now()
		r.start(t)
		defer r.stop()
		if !r.hasStarted() {
			t.Errorf("it has not started %s after two failed reads", time.Since(began))
		}
	})
}

func TestStartGivesUp(t *testing.T) {
	nodes := corev1.Resource("nodes")
	for name, refusal := range map[string]error{
		"what is forbidden":      apierrors.NewForbidden(nodes, "", errors.New("no role")),
		"who is not known":       apierrors.NewUnauthorized("no token"),
		"what there is none of":  apierrors.NewNotFound(nodes, ""),
		"when it is told to end": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.resources["nodes"].refuse = []error{refusal}
				want := "reading the current version of nodes"
				if refusal == nil {
					r.resources["nodes"].refuse = nil
					r.resources["pods"].floor = "11"
					want = context.Canceled.Error()
				}
				r.start(t)
				if refusal == nil && r.hasStarted() {
					t.Error("it started before it was told to end")
				}
				r.stop()
				err := <-r.started
				if err == nil || !strings.Contains(err.Error(), want) || (refusal != nil && !errors.Is(err, refusal)) {
					t.Errorf("got %v, want %s", err, want)
				}
			})
		})
	}
}
