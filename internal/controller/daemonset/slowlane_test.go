// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/apply/executor"
)

// A set with more slow writes than there is room for comes back when there may be room, and not at once.
func TestAFullSlowLaneIsNotAskedAtOnce(t *testing.T) {
	w, h := slowWorld(t, 100, "create")
	for range 10 { // the creates that time out one by one, and those that fill the lane
		_ = w.pass()
		w.clock.Step(time.Second)
	}
	short := 0
	for range 100 {
		after, err := w.c.Reconcile(context.Background(), w.key)
		if err != nil {
			t.Fatal(err)
		}
		if after > 0 && after < 100*time.Millisecond {
			short++
		}
	}
	if short > 10 {
		t.Errorf("%d of 100 passes in which nothing can be done ask for the next one within 100 ms", short)
	}
	h.answered()
}

// lane has creates for some nodes without an answer until the test ends, and answers all others at once.
type lane struct {
	worldPods
	hangs func(node string) bool
	until chan struct{}
}

func (l lane) Create(ctx context.Context, pod *unstructured.Unstructured) (*corev1.Pod, error) {
	if l.hangs(nodeOf(pod)) {
		<-l.until
		return nil, apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
	}
	return l.worldPods.Create(ctx, pod)
}

func nodeOf(pod *unstructured.Unstructured) string {
	terms, _, _ := unstructured.NestedSlice(pod.Object, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	for _, t := range terms {
		fields, _, _ := unstructured.NestedSlice(t.(map[string]any), "matchFields")
		for _, f := range fields {
			if values, _, _ := unstructured.NestedStringSlice(f.(map[string]any), "values"); len(values) == 1 {
				return values[0]
			}
		}
	}
	return ""
}

// A node whose first name a pod of a stranger has gets a pod with the second name, also from the slow lane.
func TestANameThatIsTakenInTheSlowLane(t *testing.T) {
	w := newWorld(t, 2, nil)
	l := lane{worldPods{w}, func(node string) bool { return node == "n1" }, make(chan struct{})}
	var mu sync.Mutex
	fast := true
	taken := ""
	w.before = func(verb, name string) error {
		mu.Lock()
		defer mu.Unlock()
		if verb == "create" && fast { // the first write, of n1, times out; from then on the lane has them all
			fast = false
			return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
		}
		if verb == "create" && taken == "" { // that of n2: a stranger is there first
			taken = name
			w.addStranger(name)
		}
		return nil
	}
	w.c.Executor.Slow = &executor.SlowLane{Pods: l, Hold: func(context.Context) error { return nil }, Free: func(context.Context, func() bool) {}}
	for range 120 {
		_ = w.pass()
		time.Sleep(2 * time.Millisecond) // for what runs in the lane
		w.clock.Step(500 * time.Millisecond)
	}
	mu.Lock()
	creates := 0
	w.mu.Lock()
	for _, name := range w.wrote("create") {
		if name == taken {
			creates++
		}
	}
	pods := len(w.pods)
	w.mu.Unlock()
	mu.Unlock()
	if pods < 2 {
		t.Errorf("the node whose name is taken has no pod after a minute; the create with that name was sent %d times", creates)
	}
	close(l.until)
	w.c.Executor.Slow.Wait()
}

// addStranger is a pod of nobody that is not selected; the world is locked.
func (w *world) addStranger(name string) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-stranger", Labels: map[string]string{"app": "other"}, ResourceVersion: w.next()}}
	p.Status.Phase = corev1.PodRunning
	w.pods[name] = p
	w.seePod(p)
}

// A node that is deleted while its create is slow does not keep the creates for other nodes in the slow lane.
func TestADeletedNodeDoesNotKeepCreatesInTheSlowLane(t *testing.T) {
	w := newWorld(t, 1, nil)
	held := 0
	w.c.Executor.Slow = &executor.SlowLane{Pods: worldPods{w}, Hold: func(context.Context) error { held++; return nil }, Free: func(context.Context, func() bool) {}}
	w.before = func(verb, name string) error {
		if verb == "create" {
			return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
		}
		return nil
	}
	_ = w.pass()
	w.before = nil
	w.index.DeleteNode("n1")
	for i := range 50 {
		w.join(string(rune('a'+i%26)) + string(rune('a'+i/26)))
		w.clock.Step(10 * time.Second)
		_ = w.pass()
		w.c.Executor.Slow.Wait()
		w.kubelets()
	}
	if held > 10 {
		t.Errorf("%d of %d creates went through the lane, and none of them was slow", held, len(w.pods))
	}
}

// A delete from the slow lane whose answer says that the pod is gone, or another one, is looked at at once: such an answer leaves nothing open.
func TestADefiniteAnswerInTheSlowLaneHoldsNothing(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, answer := range map[string]error{
		"not found": apierrors.NewNotFound(pods, "x"),
		"conflict":  apierrors.NewConflict(pods, "x", errors.New("no")),
	} {
		t.Run(name, func(t *testing.T) {
			w, h := slowWorld(t, 3, "delete")
			h.answer = answer
			w.settle()
			w.edit("img:v2")
			_ = w.pass()
			w.clock.Step(executor.Fence)
			w.mustPass()
			h.answered()
			if open := w.index.Ownership(w.key, 0).Unsettled; len(open) != 0 {
				t.Errorf("%d deletes are open after the answer", len(open))
			}
			if events := w.allEvents(); !strings.Contains(events, "FailedDelete") {
				t.Errorf("events:\n%s", events)
			}
		})
	}
}
