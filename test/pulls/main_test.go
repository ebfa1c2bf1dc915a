// SPDX-License-Identifier: Apache-2.0

// Package pulls tests ImagePullJobs on a plane: the manager, the API server and the queue of the agents are the real ones, the
// container runtimes are simulated.
//
// The rule: what is claimed is judged from the watch of NodeImages and pods, never from what a controller says of itself.
package pulls

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/harness"
)

// pullTime is how long a simulated pull takes.
const pullTime = 2 * time.Second

// world is a plane with a client for it.
type world struct {
	t     *testing.T
	plane *localplane.Plane
	client.WithWatch
	// byHand is what the test has bound to the manager.
	byHand []string
}

// newWorld starts a plane; args are for the manager.
func newWorld(t *testing.T, nodes int, args ...string) *world {
	t.Helper()
	return newWorldWith(t, worldOptions{nodes: nodes, pull: pullTime, manager: args})
}

// worldOptions are what the planes of these tests differ in.
type worldOptions struct {
	nodes   int
	pull    time.Duration // how long a simulated pull takes
	manager []string      // further arguments of the manager
	// dialects are those that it serves; nil are the usual ones.
	dialects []string
}

func newWorldWith(t *testing.T, o worldOptions) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: this starts a plane; run without -short (make test SUITE=pulls)")
	}
	profile := simkubelet.Realistic()
	profile.ImagePull = o.pull
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	plane, err := localplane.Start(ctx, localplane.Options{
		Dir: filepath.Join(t.TempDir(), "plane"), Nodes: o.nodes, Sim: &profile, Manager: localplane.Manager{Args: o.manager}, Dialects: o.dialects,
		Programs: localplane.Programs{
			Localplane: filepath.Join(harness.BinDir(), "localplane"),
			Manager:    filepath.Join(harness.BinDir(), "everynode-manager"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, plane: plane}
	t.Cleanup(func() {
		if err := harness.StopPlane(context.Background(), plane, w.byHand...); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w.WithWatch, err = client.NewWithWatch(plane.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	await(t, w, &v1beta1.NodeImageList{}, "a NodeImage for every node", func(l *v1beta1.NodeImageList) bool { return len(l.Items) == o.nodes })
	return w
}

// await waits until what is listed is as wanted.
func await[L client.ObjectList](t *testing.T, w *world, list L, what string, ok func(L) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := w.List(ctx, list)
		if err == nil && ok(list) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s: %v, %+v", what, err, list)
		}
	}
}

// follow has see called with everything on a list, and with every event after that, until the returned function is called. A watch that
// the API server ends, as it does when its reader falls behind, goes on where it ended; when one cannot, the test fails.
func (w *world) follow(list client.ObjectList, see func(watch.Event), opts ...client.ListOption) (stop func()) {
	w.t.Helper()
	if err := w.List(w.t.Context(), list, opts...); err != nil {
		w.t.Fatal(err)
	}
	from := func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
		if o.ResourceVersion != list.GetResourceVersion() {
			w.t.Logf("the watch of %T was ended, and goes on: what it tells may be a second late", list)
		}
		return w.Watch(w.t.Context(), list.DeepCopyObject().(client.ObjectList), append(slices.Clone(opts), &client.ListOptions{Raw: &o})...)
	}
	watching, err := toolswatch.NewRetryWatcherWithContext(w.t.Context(), list.GetResourceVersion(), &cache.ListWatch{WatchFuncWithContext: from})
	if err != nil {
		w.t.Fatal(err)
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = meta.EachListItem(list, func(obj runtime.Object) error {
			see(watch.Event{Type: watch.Added, Object: obj})
			return nil
		})
		for e := range watching.ResultChan() {
			if e.Type == watch.Error {
				w.t.Errorf("watching %T: %+v", list, e.Object)
			} else if e.Type != watch.Bookmark {
				see(e)
			}
		}
		if !closed(stopped) && w.t.Context().Err() == nil {
			w.t.Errorf("the watch of %T ended by itself", list)
		}
	}()
	return sync.OnceFunc(func() { close(stopped); watching.Stop(); <-done })
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// recorder watches NodeImages, and knows at how many nodes each image was being pulled at once.
type recorder struct {
	mu     sync.Mutex
	active map[string][]string // names of nodes by image
	most   map[string]int
}

// record watches until the test ends.
func (w *world) record() *recorder {
	w.t.Helper()
	r := &recorder{active: map[string][]string{}, most: map[string]int{}}
	w.t.Cleanup(w.follow(&v1beta1.NodeImageList{}, func(e watch.Event) { r.see(e.Object.(*v1beta1.NodeImage)) }))
	return r
}

// see takes in what a NodeImage looks like: a node is active for an image from being told of it until it reports the end.
func (r *recorder) see(image *v1beta1.NodeImage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.active {
		r.active[name] = slices.DeleteFunc(r.active[name], func(n string) bool { return n == image.Name })
	}
	for name, spec := range image.Spec.Images {
		for _, tag := range spec.Tags {
			done := false
			for _, s := range image.Status.ImageStatuses[name].Tags {
				done = done || s.Tag == tag.Tag && s.Version == tag.Version && s.CompletionTime != nil
			}
			if !done {
				r.active[name] = append(r.active[name], image.Name)
				r.most[name] = max(r.most[name], len(r.active[name]))
			}
		}
	}
}

func (r *recorder) mostOf(image string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most[image]
}
