// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// hanging is the client of a bench. While it hangs, patches in the namespace ns have no answer.
type hanging struct {
	*fake.FakeDynamicClient
	b *bench
}

type hangingResource struct {
	dynamic.NamespaceableResourceInterface
	b *bench
}

type hangingNamespace struct {
	dynamic.ResourceInterface
	b *bench
}

func (h hanging) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return hangingResource{h.FakeDynamicClient.Resource(gvr), h.b}
}

func (h hangingResource) Namespace(namespace string) dynamic.ResourceInterface {
	if of := h.NamespaceableResourceInterface.Namespace(namespace); namespace != "ns" {
		return of
	}
	return hangingNamespace{h.NamespaceableResourceInterface.Namespace("ns"), h.b}
}

func (h hangingNamespace) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, sub ...string) (*unstructured.Unstructured, error) {
	h.b.mu.Lock()
	until := h.b.hangs
	if until != nil {
		h.b.hanging++
	}
	h.b.mu.Unlock()
	if until != nil {
		<-until
		return nil, context.DeadlineExceeded
	}
	return h.ResourceInterface.Patch(ctx, name, kind, data, o, sub...)
}

// TestNamespaceWithAWebhookThatHangs delays the statuses of no other namespace.
func TestNamespaceWithAWebhookThatHangs(t *testing.T) {
	other := agentsPolicy()
	other.SetNamespace("other")
	b := newBench(t, nil, agentsPolicy(), other)
	elsewhere := agents
	elsewhere.Namespace = "other"
	b.until("the policies are read", func() bool { return len(b.Of(agents).Policies) == 1 && len(b.Of(elsewhere).Policies) == 1 })
	until := make(chan struct{})
	t.Cleanup(func() { close(until) })
	b.mu.Lock()
	b.hangs = until
	b.mu.Unlock()
	status := &v1alpha1.SetStatus{APIVersion: "apps/v1", Name: "agents", Phase: v1alpha1.PhaseComplete}
	b.Report(agents, b.Of(agents).Policies, status, nil)
	b.until("a write of the first namespace is under way", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.hanging > 0
	})
	b.Report(elsewhere, b.Of(elsewhere).Policies, status, nil)
	b.until("the status of the other namespace is written", func() bool { return len(b.written()) == 1 })
}

// writer is what lanes write with. Writes of a namespace that is slow have no answer before release.
type writer struct {
	t        *testing.T
	mu       sync.Mutex
	slow     map[string]chan struct{}
	written  []string
	underWay map[string]bool
}

func (w *writer) write(name types.NamespacedName) bool {
	w.mu.Lock()
	if w.underWay[name.Namespace] {
		w.t.Errorf("two writes of %s are under way", name.Namespace)
	}
	w.underWay[name.Namespace] = true
	w.written = append(w.written, name.String())
	wait := w.slow[name.Namespace]
	w.mu.Unlock()
	if wait != nil {
		<-wait
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.underWay[name.Namespace] = false
	return wait != nil
}

func (w *writer) has(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.written, name)
}

// TestMoreSlowNamespacesThanWriters: each holds a writer of the fast ones once, and the other statuses of such a namespace are written later, one after the other.
func TestMoreSlowNamespacesThanWriters(t *testing.T) {
	const many = writersOfLane + 4
	l, w := newLanes(), &writer{t: t, slow: map[string]chan struct{}{}, underWay: map[string]bool{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run(w.write)
	}()
	b := &bench{t: t}
	hang := func(namespace string) (release func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		wait := make(chan struct{})
		w.slow[namespace] = wait
		return func() { close(wait) }
	}
	for i := range many {
		namespace := fmt.Sprint("slow-", i)
		release := hang(namespace)
		l.add(types.NamespacedName{Namespace: namespace, Name: "a"})
		b.until("the first write of "+namespace, func() bool { return w.has(namespace + "/a") })
		release()
	}
	b.until("all are slow", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.isSlow) == many
	})
	var all []func()
	for i := range many {
		namespace := fmt.Sprint("slow-", i)
		all = append(all, hang(namespace))
		l.add(types.NamespacedName{Namespace: namespace, Name: "b"})
		l.add(types.NamespacedName{Namespace: namespace, Name: "c"})
	}
	for i := range 2 * many {
		name := types.NamespacedName{Namespace: fmt.Sprint("fast-", i), Name: "a"}
		l.add(name)
		b.until("the write of "+name.String(), func() bool { return w.has(name.String()) })
	}
	for _, release := range all {
		release()
	}
	w.mu.Lock()
	clear(w.slow)
	w.mu.Unlock()
	for i := range many {
		name := fmt.Sprintf("slow-%d/c", i)
		b.until("the write of "+name, func() bool { return w.has(name) })
	}
	l.add(types.NamespacedName{Namespace: "slow-0", Name: "d"})
	b.until("nothing is due", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.due) == 0 && !l.isSlow.Has("slow-0")
	})
	l.shutDown()
	<-ended
}
