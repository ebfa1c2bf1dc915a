// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/test/harness"
)

// crowd follows the pods of the set. An event costs the same however many pods there are, for it is paid from the processors that are
// measured.
type crowd struct {
	mu    sync.Mutex
	image string
	pods  map[types.UID]brief
	good  int // pods of that image that are ready, and stay
	// wrote is when a controller was first seen to write a pod since forgetWrites, and writes how often, by kind of request.
	wrote   time.Time
	writes  map[string]int
	waiters []*waiter

	once   sync.Once
	listed chan struct{} // closed when all pods are known
}

// brief is what is kept of a pod.
type brief struct {
	uid        types.UID
	name, node string
	image      string
	running    bool // a container of that image
	ready      bool // and everything else says so, too
	gate       corev1.ConditionStatus
	leaving    bool
}

type waiter struct {
	met  func() bool
	done chan time.Time
}

// newCrowd begins to watch, on a connection of its own: the API server ends the watch of a reader that falls behind.
func newCrowd(ctx context.Context, config *rest.Config, namespace string) (*crowd, error) {
	config = rest.CopyConfig(config)
	config.Dial = (&net.Dialer{}).DialContext // a configuration with a dialer shares its connections with no other
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	const soon, longest = 10 * time.Millisecond, 10
	c := &crowd{pods: map[types.UID]brief{}, writes: map[string]int{}, listed: make(chan struct{})}
	reflector := cache.NewReflectorWithOptions(
		cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", namespace, fields.Everything()), &corev1.Pod{}, c,
		cache.ReflectorOptions{Name: "bench", Backoff: &wait.Backoff{Duration: soon, Factor: 2, Steps: longest, Cap: time.Second}},
	)
	go reflector.RunWithContext(ctx)
	select {
	case <-c.listed:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Add implements cache.ReflectorStore.
func (c *crowd) Add(obj any) error { return c.with(obj, c.put) }

// Update implements cache.ReflectorStore.
func (c *crowd) Update(obj any) error { return c.with(obj, c.put) }

// Delete implements cache.ReflectorStore.
func (c *crowd) Delete(obj any) error { return c.with(obj, c.drop) }

// Resync implements cache.ReflectorStore.
func (c *crowd) Resync() error { return nil }

// Replace implements cache.ReflectorStore: the list is all there is.
func (c *crowd) Replace(list []any, _ string) error {
	there := map[types.UID]bool{}
	for _, obj := range list {
		if pod, ok := obj.(*corev1.Pod); ok {
			there[pod.UID] = true
		}
		if err := c.Add(obj); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, b := range c.pods {
		if !there[uid] {
			c.good -= c.one(b)
			delete(c.pods, uid)
		}
	}
	c.tell()
	c.once.Do(func() { close(c.listed) })
	return nil
}

// with has a pod taken in.
func (c *crowd) with(obj any, take func(*corev1.Pod)) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("watching pods: there is a %T", obj)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	take(pod)
	c.tell()
	return nil
}

func briefOf(pod *corev1.Pod) brief {
	b := brief{
		uid: pod.UID, name: pod.Name, node: pod.Spec.NodeName, image: pod.Spec.Containers[0].Image, leaving: pod.DeletionTimestamp != nil,
	}
	for _, c := range pod.Status.ContainerStatuses {
		b.running = c.Image == b.image && c.State.Running != nil
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == kruise.InPlaceUpdateReady {
			b.gate = c.Status
		}
	}
	// The kubelet learns of the gate a moment later.
	b.ready = harness.Ready(pod) && b.running && b.gate != corev1.ConditionFalse
	return b
}

func (c *crowd) put(pod *corev1.Pod) {
	now := briefOf(pod)
	before, had := c.pods[now.uid]
	c.good += c.one(now) - c.one(before)
	c.pods[now.uid] = now
	c.note(podCreates, !had)
	c.note(podDeletes, had && now.leaving != before.leaving)
	c.note(podPatches, had && now.image != before.image)
	c.note(podStatuses, had && now.gate != before.gate)
}

func (c *crowd) drop(pod *corev1.Pod) {
	c.good -= c.one(c.pods[pod.UID])
	delete(c.pods, pod.UID)
}

// note counts a write of a kind, if it was one.
func (c *crowd) note(kind string, yes bool) {
	if !yes {
		return
	}
	c.writes[kind]++
	if c.wrote.IsZero() {
		c.wrote = time.Now()
	}
}

// one is 1 for a good pod.
func (c *crowd) one(b brief) int {
	if b.uid != "" && b.image == c.image && b.ready && !b.leaving {
		return 1
	}
	return 0
}

// tell wakes who waits for what is now so.
func (c *crowd) tell() {
	kept := c.waiters[:0]
	for _, w := range c.waiters {
		if w.met() {
			w.done <- time.Now()
		} else {
			kept = append(kept, w)
		}
	}
	c.waiters = kept
}

// aim says which image is the new one.
func (c *crowd) aim(image string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.image, c.good = image, 0
	for _, b := range c.pods {
		c.good += c.one(b)
	}
}

// forgetWrites begins to count writes anew, and returns what was counted before.
func (c *crowd) forgetWrites() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.writes
	c.wrote, c.writes = time.Time{}, map[string]int{}
	return before
}

// list are the pods that stay.
func (c *crowd) list() []brief {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pods []brief
	for _, b := range c.pods {
		if !b.leaving {
			pods = append(pods, b)
		}
	}
	return pods
}

// notBy is how long anything may take that is waited for. It is long, since it ends a measurement of hours.
const notBy = 10 * time.Minute

// await returns when something was first so. met is called with the crowd locked, after each event, and must be cheap.
func (c *crowd) await(ctx context.Context, what string, met func() bool) (time.Time, error) {
	w := &waiter{met: met, done: make(chan time.Time, 1)}
	c.mu.Lock()
	c.waiters = append(c.waiters, w)
	c.tell()
	c.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, notBy, errors.New("that took too long"))
	defer cancel()
	select {
	case at := <-w.done:
		return at, nil
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		return time.Time{}, fmt.Errorf("waiting until %s: %w (there are %d pods, %d of them ready with image %s)",
			what, context.Cause(ctx), len(c.pods), c.good, c.image)
	}
}

// all is met when that many pods are good, and there are no others.
func (c *crowd) all(nodes int) func() bool {
	return func() bool { return c.good == nodes && len(c.pods) == nodes }
}

// some is met when at least that many pods are good.
func (c *crowd) some(pods int) func() bool { return func() bool { return c.good >= pods } }

func TestCrowd(t *testing.T) {
	c := &crowd{pods: map[types.UID]brief{}, writes: map[string]int{}, listed: make(chan struct{})}
	c.aim("new")
	pod := func(uid, image string, ready bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid}}
		p.Spec.Containers = []corev1.Container{{Image: image}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Image: image, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		if ready {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		return p
	}
	put := func(pod *corev1.Pod) {
		t.Helper()
		if err := c.Update(pod); err != nil {
			t.Error(err)
		}
	}
	met := make(chan error, 1)
	go func() {
		_, err := c.await(t.Context(), "two are good", c.all(2))
		met <- err
	}()
	put(pod("a", "new", true))
	put(pod("a", "new", true))
	put(pod("b", "old", true))
	leaving := pod("c", "new", true)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	put(leaving)
	if c.good != 1 || len(c.list()) != 2 {
		t.Errorf("%d are good and %d stay: 1 and 2 were to be expected", c.good, len(c.list()))
	}
	if before := c.forgetWrites(); !maps.Equal(before, map[string]int{podCreates: 3}) {
		t.Errorf("what was written is %v: three creates were to be expected", before)
	}
	put(pod("b", "old", false))
	if !c.wrote.IsZero() {
		t.Error("what a kubelet writes counts as written by a controller")
	}
	put(pod("b", "new", false))
	if c.wrote.IsZero() {
		t.Error("another image was not written by a controller")
	}
	closed := pod("b", "new", true)
	closed.Status.Conditions = append(closed.Status.Conditions, corev1.PodCondition{Type: kruise.InPlaceUpdateReady, Status: corev1.ConditionFalse})
	put(closed)
	if c.good != 1 {
		t.Error("a pod with a closed gate is good")
	}
	put(pod("b", "new", true))
	if err := c.Replace([]any{pod("a", "new", true), pod("b", "new", true)}, ""); err != nil {
		t.Error(err)
	}
	if err := <-met; err != nil || c.good != 2 {
		t.Errorf("%d are good, %v", c.good, err)
	}
	if writes := c.forgetWrites(); !maps.Equal(writes, map[string]int{podPatches: 1, podStatuses: 2}) {
		t.Errorf("what was written is %v: a patch and two statuses were to be expected", writes)
	}
	if err := c.Delete(pod("b", "new", true)); err != nil || c.good != 1 || c.Add(&corev1.Node{}) == nil {
		t.Errorf("%d are good after one has gone, %v", c.good, err)
	}
	c.aim("newer")
	if c.good != 0 {
		t.Errorf("%d are good with an image that none has", c.good)
	}
}
