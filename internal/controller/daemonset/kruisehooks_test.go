// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/clustercache"
)

func (a *advanced) preparing() []*corev1.Pod {
	var found []*corev1.Pod
	for _, p := range a.pods {
		if p.Labels[api.LifecycleState] == api.LifecyclePreparingDelete && p.DeletionTimestamp == nil {
			found = append(found, p)
		}
	}
	return found
}

func TestThePreDeleteHookIsWaitedFor(t *testing.T) {
	for name, release := range map[string]func(p *corev1.Pod){
		`{lifecycle: {preDelete: {labelsHandler: {block: "true"}}}}`:   func(p *corev1.Pod) { delete(p.Labels, "block") },
		`{lifecycle: {preDelete: {finalizersHandler: ["x.io/hold"]}}}`: func(p *corev1.Pod) { p.Finalizers = nil },
	} {
		a := newAdvanced(t, 2, name)
		a.change(func(spec map[string]any) {
			spec["template"].(map[string]any)["metadata"].(map[string]any)["finalizers"] = []any{"x.io/hold"}
		})
		a.settle()
		a.image("img:v2")
		for range 2 {
			a.settle()
			held := a.preparing()
			if len(held) != 1 || len(a.pods) != 2 || len(a.wrote("delete")) != 0 {
				t.Fatalf("%s: %d pods prepared of %d, deletes %v", name, len(held), len(a.pods), a.wrote("delete"))
			}
			if held[0].Annotations[api.LifecycleTimestamp] == "" {
				t.Errorf("%s: no time in %v", name, held[0].Annotations)
			}
			release(held[0])
			a.changed(held[0])
			a.mustPass()
			if got := a.wrote("delete"); len(got) != 1 || got[0] != held[0].Name {
				t.Fatalf("%s: deletes %v: the hook has released %s", name, got, held[0].Name)
			}
			for _, p := range a.pods {
				if p.DeletionTimestamp != nil {
					p.Finalizers = nil
				}
			}
			a.forgetLog()
		}
		a.settle()
		if a.status("updatedNumberScheduled") != 2 || len(a.preparing()) != 0 {
			t.Errorf("%s: status %v", name, a.set.Object["status"])
		}
	}
}

func TestAPreparedPodIsMadeNotReadyAndRestored(t *testing.T) {
	a := newAdvanced(t, 1, preDeleteNotReady)
	a.settle()
	before := a.only()
	a.image("img:v2")
	a.settle()
	p := a.only()
	if len(a.preparing()) != 1 || stateOf(p, api.KruisePodReady) != corev1.ConditionFalse || stateOf(p, corev1.PodReady) != corev1.ConditionFalse {
		t.Fatalf("labels %v, conditions %v", p.Labels, p.Status.Conditions)
	}
	a.image("img:v1")
	a.settle()
	a.wantPod("img:v1", before)
	if p := a.only(); p.Labels[api.LifecycleState] != api.LifecycleNormal || len(a.wrote("delete")) != 0 {
		t.Errorf("labels %v, deletes %v", p.Labels, a.wrote("delete"))
	}
}

// TestAnotherWriterOfTheMessageIsNotOverwritten plays somebody who keeps the pod not ready, too, and says so just before we do.
func TestAnotherWriterOfTheMessageIsNotOverwritten(t *testing.T) {
	a := newAdvanced(t, 1, preDeleteNotReady)
	a.settle()
	a.image("img:v2")
	wrote := false
	a.before = func(verb, name string) error {
		if verb != "patch-status" || wrote {
			return nil
		}
		wrote = true
		p := a.pods[name].DeepCopy()
		for i := range p.Status.Conditions {
			if c := &p.Status.Conditions[i]; c.Type == api.KruisePodReady {
				c.Status, c.Message = corev1.ConditionFalse, `[{"userAgent":"Other","key":"k"}]`
			}
		}
		p.ResourceVersion = a.next()
		a.pods[name] = p
		a.seePod(p)
		return nil
	}
	for len(a.events.Events) > 0 {
		<-a.events.Events
	}
	if err := a.pass(); !apierrors.IsConflict(err) || len(a.preparing()) != 0 || len(a.events.Events) != 0 {
		t.Fatalf("error %v, %d pods prepared, %d events; want a conflict that nobody has to mend", err, len(a.preparing()), len(a.events.Events))
	}
	a.settle()
	const both = `[{"userAgent":"Other","key":"k"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]`
	for _, c := range a.only().Status.Conditions {
		if c.Type == api.KruisePodReady && (c.Message != both || c.Status != corev1.ConditionFalse) {
			t.Errorf("condition %+v, want the message %s", c, both)
		}
	}
	if len(a.preparing()) != 1 {
		t.Error("the pod is not prepared in the next pass")
	}
}

func TestAPreparationThatEndedHalfwayIsTakenBack(t *testing.T) {
	a := newAdvanced(t, 1, preDeleteNotReady)
	a.settle()
	before := a.only()
	a.image("img:v2")
	a.fail("patch", errors.New("crash"), false)
	if err := a.pass(); err == nil || stateOf(a.only(), api.KruisePodReady) != corev1.ConditionFalse || len(a.preparing()) != 0 {
		t.Fatalf("error %v, labels %v", err, a.only().Labels)
	}
	a.before = nil
	a.image("img:v1")
	a.settle()
	a.wantPod("img:v1", before)
}

func TestARestorationThatEndedHalfwayIsFinished(t *testing.T) {
	a := newAdvanced(t, 1, preDeleteNotReady)
	a.settle()
	before := a.only()
	a.image("img:v2")
	a.settle()
	a.image("img:v1")
	for _, verb := range []string{"patch-status", "patch"} {
		a.fail(verb, errors.New("crash"), false)
		if err := a.pass(); err == nil {
			t.Fatalf("a %s that fails has to fail the pass", verb)
		}
		a.clock.Step(5 * time.Second) // before, it may still take effect
	}
	a.before = nil
	a.settle()
	a.wantPod("img:v1", before)
}

func TestAPodIsRestoredWhenItsNodeMayRunItAgain(t *testing.T) {
	a := newAdvanced(t, 0, preDelete)
	a.change(func(spec map[string]any) {
		spec["template"].(map[string]any)["spec"].(map[string]any)["nodeSelector"] = map[string]any{"pool": "x"}
	})
	node := func(pool string) {
		a.index.PutNode(clustercache.Node{Name: "n1", RV: a.next(), Ready: true, Labels: map[string]string{"pool": pool}})
	}
	node("x")
	a.settle()
	before := a.only()
	node("y")
	a.settle()
	if len(a.preparing()) != 1 {
		t.Fatalf("labels %v: the pod has to leave, and its hook is armed", a.only().Labels)
	}
	// Nothing of this begins the update, which is paused.
	a.change(func(spec map[string]any) {
		spec["updateStrategy"] = map[string]any{"rollingUpdate": map[string]any{"paused": true}}
	})
	a.image("img:v2")
	a.settle()
	node("x")
	a.settle()
	if p := a.only(); p.UID != before.UID || p.Spec.Containers[0].Image != "img:v1" {
		t.Errorf("pod %s runs %s", p.Name, p.Spec.Containers[0].Image)
	}
	if len(a.preparing()) != 0 || len(a.wrote("delete")) != 0 {
		t.Errorf("labels %v, deletes %v", a.only().Labels, a.wrote("delete"))
	}
}
