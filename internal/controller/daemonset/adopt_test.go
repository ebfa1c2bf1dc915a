// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/rollout"
)

// Pods without an owner and without a node whose adoption is refused hold nothing up, however many they are.
func TestManyPodsThatCannotBeAdoptedHoldNothingUp(t *testing.T) {
	for _, count := range []int{250, 251} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			w := newWorld(t, 3, nil)
			w.settle()
			for i := range count {
				w.addPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("orphan-%03d", i), Labels: map[string]string{"app": "x"}}})
			}
			w.before = func(verb, name string) error {
				if verb == "patch" && strings.HasPrefix(name, "orphan-") {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("ValidatingAdmissionPolicy 'p' denied request"))
				}
				return nil
			}
			w.join("joined")
			for range 300 {
				_ = w.pass()
				w.clock.Step(time.Second)
			}
			if got := len(w.pods) - count; got != 4 {
				t.Errorf("%d pods of the set, want 4: the node that has joined has none", got)
			}
		})
	}
}

// slowPatches are those of an API server with a webhook that takes 10 seconds for each patch of a pod: a patch with 5 seconds times out, one with a minute
// does not.
type slowPatches struct{ worldPods }

func (s slowPatches) Patch(ctx context.Context, p executor.PodPatch) (*corev1.Pod, error) {
	s.w.mu.Lock()
	before := s.w.before
	s.w.before = nil
	s.w.mu.Unlock()
	s.w.clock.Step(10 * time.Second)
	defer func() {
		s.w.mu.Lock()
		s.w.before = before
		s.w.mu.Unlock()
	}()
	return s.worldPods.Patch(ctx, p)
}

// slowPatches has each patch time out that a pass waits for; those of the slow lane are answered.
func (w *world) slowPatches() {
	w.before = func(verb, _ string) error {
		if verb == "patch" {
			return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
		}
		return nil
	}
	w.c.Executor.Slow = &executor.SlowLane{Pods: slowPatches{worldPods{w}}, Hold: func(context.Context) error { return nil }, Free: func(context.Context, func() bool) {}}
}

// A pod is adopted although a webhook is slow, as kube-controller-manager adopts it, and a time-out is not reported as a refusal.
func TestASlowAdoption(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.settle()
	for _, p := range w.pods { // as kubectl delete --cascade=orphan leaves them
		p.OwnerReferences = nil
		w.changed(p)
	}
	w.slowPatches()
	for range 600 {
		_ = w.pass()
		w.c.Executor.Slow.Wait()
		w.clock.Step(time.Second)
	}
	for name, p := range w.pods {
		if metav1.GetControllerOf(p) == nil {
			t.Errorf("pod %s is not adopted after 10 minutes", name)
		}
	}
	if events := w.allEvents(); strings.Contains(events, "FailedAdopt") {
		t.Errorf("events:\n%s", events)
	}
}

// An adoption takes effect, its answer is lost, and meanwhile the pod is being deleted: the watch shows the deletion first, and no owner yet. Until it has
// been read, no other pod is created next to it, and then it counts as a pod of the set.
func TestAnUnclearAdoptionOfAPodThatIsBeingDeleted(t *testing.T) {
	for _, shown := range []string{"before the answer", "after the answer"} {
		w := newWorld(t, 1, nil)
		w.settle()
		var p *corev1.Pod
		for _, p = range w.pods {
			p.OwnerReferences = nil
			w.changed(p)
		}
		now := metav1.NewTime(w.clock.Now())
		p.DeletionTimestamp = &now // and no event has shown that yet
		deleted := p.DeepCopy()
		deleted.ResourceVersion = w.next()
		p.ResourceVersion = deleted.ResourceVersion
		w.watch = false
		w.after = func(verb, _ string) error {
			if verb != "patch" {
				return nil
			}
			if shown == "before the answer" {
				w.seePod(deleted)
			}
			return apierrors.NewTimeoutError("the answer is lost", 0)
		}
		w.forgetLog()
		_ = w.pass()
		w.after = nil
		w.seePod(deleted)
		if metav1.GetControllerOf(w.pods[p.Name]) == nil {
			t.Fatalf("%s: the pod was not adopted: %q", shown, w.log)
		}
		for range 120 {
			_ = w.pass()
			w.clock.Step(time.Second)
		}
		if created := w.wrote("create"); len(created) > 0 {
			t.Errorf("%s: %q is created next to the pod that was adopted and is being deleted", shown, created)
		}
		w.gone(p.Name)
		w.mustPass()
		if created := w.wrote("create"); len(created) != 1 {
			t.Errorf("%s: after the pod has gone, %q are created", shown, created)
		}
	}
}

// An adoption that is refused after a while holds its node with the words of the API server, and sends an event.
func TestASlowAdoptionThatIsRefused(t *testing.T) {
	w, h := slowWorld(t, 2, "patch")
	w.settle()
	h.answer = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("policy"))
	for _, p := range w.pods {
		p.OwnerReferences = nil
		w.changed(p)
	}
	_ = w.pass()
	w.clock.Step(executor.Fence)
	w.mustPass()
	if s, _, _ := w.index.Snapshot(w.key, clustercache.History{}, rollout.Time(w.clock.Now().UnixNano())); !strings.Contains(s.Nodes[0].Blocked, "has not answered the adopt") {
		t.Errorf("without an answer the node is held back by %q", s.Nodes[0].Blocked)
	}
	h.answered()
	w.mustPass()
	if s, _, _ := w.index.Snapshot(w.key, clustercache.History{}, rollout.Time(w.clock.Now().UnixNano())); !strings.Contains(s.Nodes[0].Blocked, "policy") {
		t.Errorf("after a refusal the node is held back by %q", s.Nodes[0].Blocked)
	}
	if events := w.allEvents(); !strings.Contains(events, "FailedAdopt") || !strings.Contains(events, "policy") || len(w.pods) != 2 {
		t.Errorf("%d pods, events:\n%s", len(w.pods), events)
	}
}

// TestAPodThatIsReadAfterARefusedAdoption: the adoption is answered with 404, so the pod is read. It is there, and what the read has shown of it counts.
func TestAPodThatIsReadAfterARefusedAdoption(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.settle()
	ready := func(p *corev1.Pod, status corev1.ConditionStatus) {
		p.OwnerReferences, p.Status.Conditions, p.ResourceVersion = nil, []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}, w.next()
	}
	for _, p := range w.pods {
		ready(p, corev1.ConditionFalse)
		w.seePod(p)
		ready(p, corev1.ConditionTrue) // the watch has not shown this
	}
	w.before = func(verb, name string) error {
		if verb == "patch" {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
		}
		return nil
	}
	_ = w.pass()
	for _, p := range w.pods {
		if len(w.wrote("patch")) == 0 || !w.index.Ready(p.UID) {
			t.Errorf("the manager does not know that pod %s is ready: %v", p.Name, w.log)
		}
	}
}
