// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/internal/apply/executor"
)

// sentSlowly reports when a slow create is sent.
type sentSlowly struct {
	*webhook
	sent chan struct{}
}

func (s sentSlowly) Create(ctx context.Context, pod *unstructured.Unstructured) (*corev1.Pod, error) {
	s.sent <- struct{}{}
	return s.webhook.Create(ctx, pod)
}

// slowCreate is a set on one node, whose create goes to the slow lane and waits there for that long before it is sent.
func slowCreate(t *testing.T, waits time.Duration) (*world, sentSlowly) {
	w, h := slowWorld(t, 1, "create")
	s := sentSlowly{h, make(chan struct{}, 10)}
	w.c.Executor.Slow.Pods = s
	w.c.Executor.Slow.Hold = func(context.Context) error {
		w.clock.Step(waits)
		waits = 0
		h.held.Store(1)
		return nil
	}
	if err := w.pass(); err == nil {
		t.Fatal("a create without an answer must fail the pass")
	}
	w.clock.Step(executor.Fence)
	for w.mustPass(); len(w.index.Ownership(w.key, 0).Pending) == 0; w.mustPass() { // the first pass finds that it took no effect
		w.clock.Step(time.Second)
	}
	return w, s
}

// TestASlowWriteThatWaitsBeforeItIsSent: a slow write may wait before it is sent, until it has been announced and the limit of the client has room. The API server may be at
// work on it for a minute from then, and until that has passed nothing else is created on its node.
func TestASlowWriteThatWaitsBeforeItIsSent(t *testing.T) {
	const announcing = 9 * time.Second // earlier ones had to wait for an answer about the lease
	w, s := slowCreate(t, announcing)
	<-s.sent
	w.edit("img:v2")
	w.clock.Step(executor.SlowWriteTimeout - time.Second)
	w.mustPass()
	w.mustPass()
	s.answered()
	if len(w.pods) != 1 {
		t.Errorf("%d pods on one node: the API server was still at work on the first create when the second one was sent", len(w.pods))
	}
}

// TestASlowWriteThatWaitsForTooLong: a slow write that has waited for so long that a read may have shown that it took no effect is not sent. The next pass decides again.
func TestASlowWriteThatWaitsForTooLong(t *testing.T) {
	w, s := slowCreate(t, 2*time.Minute)
	lane := w.c.Executor.Slow
	s.answered()
	if len(w.pods) != 0 {
		t.Errorf("%d pods: what was to be created two minutes ago was created now", len(w.pods))
	}
	w.mustPass() // finds that it was not sent
	w.mustPass()
	lane.Wait()
	if len(w.pods) != 1 {
		t.Errorf("%d pods, want one after that", len(w.pods))
	}
}
