// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect/native"
)

// slowServer is an API server with webhooks that take their time for writes of sets and revisions.
type slowServer struct {
	worldSets
	worldRevisions
	// status is for the status of sets of the namespace tenant, revision for every revision, own for the status of the set of the world.
	status, revision, own time.Duration
	// deletes is for the deletes of revisions.
	deletes time.Duration

	mu sync.Mutex
	// underWay are the writes that have no answer, most how many there were at once, by what they write.
	underWay, most map[string]int
}

// takes waits for a webhook, as long as the API server does.
func (s *slowServer) takes(ctx context.Context, what string, long time.Duration) error {
	s.mu.Lock()
	s.underWay[what]++
	s.most[what] = max(s.most[what], s.underWay[what])
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.underWay[what]--
	}()
	return executor.Sleep(ctx, long)
}

func (s *slowServer) PatchStatus(ctx context.Context, key clustercache.Key, patch []byte) (*unstructured.Unstructured, error) {
	long := s.own
	if key.Namespace == "tenant" {
		long = s.status
	}
	if err := s.takes(ctx, key.Namespace, long); err != nil || key.Namespace == "tenant" {
		return nil, errors.Join(err, errors.New("no"))
	}
	return s.worldSets.PatchStatus(ctx, key, patch)
}

func (s *slowServer) Get(ctx context.Context, key clustercache.Key) (*unstructured.Unstructured, error) {
	return s.worldSets.Get(ctx, key)
}

// slowRevisions are the revisions of a slowServer.
type slowRevisions struct{ *slowServer }

func (s slowRevisions) Create(ctx context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	if err := s.takes(ctx, r.Name, s.revision); err != nil {
		return nil, err
	}
	return s.worldRevisions.Create(ctx, r)
}

func (s slowRevisions) Patch(ctx context.Context, namespace, name string, patch []byte) (*appsv1.ControllerRevision, error) {
	if err := s.takes(ctx, name, s.revision); err != nil {
		return nil, err
	}
	return s.worldRevisions.Patch(ctx, namespace, name, patch)
}

func (s slowRevisions) Delete(ctx context.Context, namespace, name string, uid types.UID) error {
	if err := s.takes(ctx, name, max(s.revision, s.deletes)); err != nil {
		return err
	}
	return s.worldRevisions.Delete(ctx, namespace, name, uid)
}

func (s slowRevisions) Get(ctx context.Context, namespace, name string) (*appsv1.ControllerRevision, error) {
	return s.worldRevisions.Get(ctx, namespace, name)
}

// running begins a Controller around a slowServer, in the time of the bubble. It ends with the test.
func (s *slowServer) running(t *testing.T, nodes int) *world {
	w := newWorld(t, nodes, nil)
	s.worldSets, s.worldRevisions, s.underWay, s.most = worldSets{w}, worldRevisions{w}, map[string]int{}, map[string]int{}
	o := w.c.Options
	o.Clock, o.Workers, o.Sets, o.Revisions = clock.RealClock{}, 4, s, slowRevisions{s}
	o.Executor.Clock = o.Clock
	o.Executor.Pace = executor.NewPace(o.Clock, func(context.Context) error { return nil }, executor.Sleep)
	o.Executor.Slow = &executor.SlowLane{Pods: worldPods{w}, Hold: func(context.Context) error { return nil }, Free: func(context.Context, func() bool) {}}
	w.c.queue.ShutDown()
	w.c = New(o)
	w.notify = w.c.Enqueue
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return w
}

// addTenant adds a set of the namespace tenant that no node has to run.
func (w *world) addTenant(i int) {
	w.t.Helper()
	ds := &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: fmt.Sprint("tenant", i), UID: types.UID(fmt.Sprint("uid-tenant", i)), Generation: 1},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "t"}}},
	}
	ds.Spec.Template.Labels = map[string]string{"app": "t"}
	ds.Spec.Template.Spec.NodeSelector = map[string]string{"no": "node"}
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ds)
	if err != nil {
		w.t.Fatal(err)
	}
	digest := native.Digest(obj)
	key := clustercache.Key{Dialect: "native", Namespace: "tenant", Name: ds.Name}
	w.index.PutSet(key, &digest)
	w.c.Enqueue(key)
}

// rolls changes the image, and how many revisions are kept, while a Controller runs.
func (w *world) rolls(image string, kept int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set.Object["spec"].(map[string]any)["revisionHistoryLimit"] = kept
	w.edit(image)
}

func (w *world) count(verb string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.wrote(verb))
}

// A webhook that never answers a write of the status of a tenant's sets does not keep the sets of others from their pods.
func TestAWebhookForTheStatusOfATenantBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tenants = 100
		s := &slowServer{status: time.Hour}
		w := s.running(t, 2)
		for i := range tenants {
			w.addTenant(i)
		}
		time.Sleep(time.Second)
		w.c.Enqueue(w.key)
		time.Sleep(5 * time.Second)
		if got := w.count("create"); got != 2 {
			t.Errorf("%d pods of the set of another tenant, want 2", got)
		}
		for i := range 20 { // no later pass waits either
			time.Sleep(10 * time.Second)
			w.rolls(fmt.Sprint("img:", i), 10)
			w.c.Enqueue(w.key)
			before := w.count("create-revision")
			time.Sleep(100 * time.Millisecond)
			if w.count("create-revision") != before+1 {
				t.Fatal("an edit of another tenant is not worked on within 100 milliseconds")
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if most := s.most["tenant"]; most < 5 || most > slowOfNamespace {
			t.Errorf("%d writes of one namespace were under way at once, want more than there are workers, and %d at most", most, slowOfNamespace)
		}
	})
}

// A webhook that takes longer than a pass waits, and no longer than the API server does, makes no status impossible.
func TestASlowStatusIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowServer{own: 20 * time.Second}
		w := s.running(t, 2)
		w.c.Enqueue(w.key)
		time.Sleep(20 * time.Second)
		if got := w.count("create"); got != 2 {
			t.Errorf("%d pods while the status is being written, want 2", got)
		}
		w.mu.Lock()
		w.kubelets()
		w.mu.Unlock()
		w.c.Enqueue(w.key)
		time.Sleep(2 * time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.status("desiredNumberScheduled") != 2 || w.status("numberReady") != 2 {
			t.Errorf("the status is %v", w.set.Object["status"])
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.most["ns"] != 1 {
			t.Errorf("%d writes of the status of one set were under way at once", s.most["ns"])
		}
	})
}

// A set waits for its own revision, and goes on when that has been written, or was there already.
func TestASlowRevisionIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowServer{revision: 20 * time.Second}
		w := s.running(t, 2)
		w.c.Enqueue(w.key)
		time.Sleep(20 * time.Second)
		if got := w.count("create"); got != 0 {
			t.Errorf("%d pods of a revision that is not written yet", got)
		}
		time.Sleep(time.Minute)
		if got := w.count("create"); got != 2 {
			t.Errorf("%d pods, want 2", got)
		}
		w.rolls("img:v2", 10)
		w.c.Enqueue(w.key)
		time.Sleep(time.Minute)
		w.rolls("img:v3", 0)
		w.c.Enqueue(w.key)
		time.Sleep(5 * time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.wrote("delete-revision")) == 0 || w.status("observedGeneration") != w.set.GetGeneration() {
			t.Errorf("revisions %d, status %v", len(w.revisions), w.set.Object["status"])
		}
	})
}

// A webhook that never answers the delete of an old revision keeps no node from its pod.
func TestASlowDeleteOfARevisionHoldsUpNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowServer{deletes: time.Hour}
		w := s.running(t, 2)
		pass := func() {
			w.mu.Lock()
			w.kubelets()
			w.mu.Unlock()
			w.c.Enqueue(w.key)
			time.Sleep(time.Second)
		}
		for i := range 3 {
			w.rolls(fmt.Sprint("img:", i), 0)
			for range 20 {
				pass()
			}
		}
		w.mu.Lock()
		w.join("joined")
		w.mu.Unlock()
		before := w.count("create")
		for range 10 {
			pass()
		}
		if got := w.count("create") - before; got != 1 {
			t.Errorf("%d pods were created for a node that joined 10 seconds ago", got)
		}
	})
}
