// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/apply/executor"
)

// webhook is one that takes long: what a pass waits for times out, and what goes to the slow lane is answered when it says.
type webhook struct {
	worldPods
	says   chan struct{}
	inLane atomic.Bool
	held   atomic.Int32
	// answer is that of the writes of the lane; they succeed without one.
	answer error
}

func slowWorld(t *testing.T, nodes int, verb string) (*world, *webhook) {
	w := newWorld(t, nodes, nil)
	h := &webhook{worldPods: worldPods{w}, says: make(chan struct{})}
	w.slowly(h, verb)
	return w, h
}

// slowly has a webhook take long for the writes of that verb.
func (w *world) slowly(h *webhook, verb string) {
	w.before = func(v, _ string) error {
		if v == verb && !h.inLane.Load() {
			return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
		}
		return nil
	}
	w.c.Executor.Slow = &executor.SlowLane{
		Pods: h,
		Hold: func(context.Context) error {
			h.held.Store(1)
			return nil
		},
		Free: func(_ context.Context, idle func() bool) {
			if idle() {
				h.held.Store(0)
			}
		},
	}
}

// wait returns when the webhook has said what it says, or false when the pass ends before.
func (h *webhook) wait() error {
	<-h.says
	h.inLane.Store(true)
	if h.held.Load() == 0 {
		return errors.New("a later leader would not wait")
	}
	return h.answer
}

func (h *webhook) Create(ctx context.Context, pod *unstructured.Unstructured) (*corev1.Pod, error) {
	if err := h.wait(); err != nil {
		return nil, err
	}
	return h.worldPods.Create(ctx, pod)
}

func (h *webhook) Delete(ctx context.Context, namespace, name string, only metav1.Preconditions) error {
	if err := h.wait(); err != nil {
		return err
	}
	return h.worldPods.Delete(ctx, namespace, name, only)
}

func (h *webhook) Patch(ctx context.Context, patch executor.PodPatch) (*corev1.Pod, error) {
	if err := h.wait(); err != nil {
		return nil, err
	}
	return h.worldPods.Patch(ctx, patch)
}

// answered lets the webhook answer everything that is under way.
func (h *webhook) answered() {
	close(h.says)
	h.w.c.Executor.Slow.Wait()
}

// A webhook that never answers, and may be ignored, makes no pod impossible, and no pass waits for it.
func TestSlowCreates(t *testing.T) {
	w, h := slowWorld(t, 7, "create")
	if err := w.pass(); err == nil {
		t.Fatal("a create without an answer has to fail the pass")
	}
	w.mustPass() // returns, although nothing has been answered yet
	if len(w.pods) != 0 {
		t.Fatalf("%d pods before the webhook has answered", len(w.pods))
	}
	w.mustPass()
	h.answered()
	if len(w.pods) != 6 {
		t.Errorf("%d pods, want one on each node but the first, whose create may still take effect", len(w.pods))
	}
	if h.held.Load() != 0 {
		t.Error("a later leader waits for writes that have been answered")
	}
	w.clock.Step(executor.Fence)
	w.mustPass()
	h.w.c.Executor.Slow.Wait()
	w.settle()
	if len(w.pods) != 7 {
		t.Errorf("%d pods, want 7", len(w.pods))
	}
}

func TestSlowDeletes(t *testing.T) {
	w, h := slowWorld(t, 3, "delete")
	w.settle()
	w.edit("img:v2")
	w.forgetLog()
	if err := w.pass(); err == nil {
		t.Fatal("a delete without an answer has to fail the pass")
	}
	w.clock.Step(executor.Fence)
	w.mustPass()
	w.mustPass()
	h.answered()
	if got := w.wrote("delete"); len(got) != 2 || got[0] == got[1] {
		t.Fatalf("deletes %v: the budget is 1, the first one took no effect, and another node has its turn", got)
	}
	for range 20 {
		w.kubelets()
		w.mustPass()
		w.c.Executor.Slow.Wait()
		w.clock.Step(time.Second)
	}
	if got := w.status("updatedNumberScheduled"); got != 3 {
		t.Errorf("updated %d, want 3", got)
	}
}

// What a slow webhook refuses is refused like anything else, and nothing goes out of a process that leads no longer.
func TestSlowRefusals(t *testing.T) {
	w, h := slowWorld(t, 2, "create")
	h.answer = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("policy"))
	_ = w.pass()
	w.mustPass()
	h.answered()
	if events := w.allEvents(); !strings.Contains(events, "FailedCreate") || !strings.Contains(events, "policy") {
		t.Errorf("events:\n%s", events)
	}
	w.c.Executor.Pace.Leads = func() bool { return false }
	h.answer = nil
	w.clock.Step(10 * time.Minute)
	_ = w.pass()
	w.c.Executor.Slow.Wait()
	if len(w.pods) != 0 {
		t.Errorf("%d pods were created by a process that does not lead", len(w.pods))
	}
}

// A manager that may not announce its slow writes, because its role is that of an older version, sends them as before.
func TestSlowWritesThatCannotBeAnnounced(t *testing.T) {
	w, h := slowWorld(t, 2, "create")
	w.c.Executor.Slow.Hold = func(context.Context) error { return errors.New("forbidden") }
	_ = w.pass()
	w.mustPass()
	w.c.Executor.Slow.Wait()
	h.inLane.Store(true) // the webhook is fast again
	w.clock.Step(executor.Fence)
	w.settle()
	if len(w.pods) != 2 || h.held.Load() != 0 {
		t.Errorf("%d pods, want 2", len(w.pods))
	}
}
