// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// TestAGenerationThatNobodyRaisesMakesNoPodCurrent changes the template of a set that carries the annotation of a native one, as after
// a migration: no API server raises it.
func TestAGenerationThatNobodyRaisesMakesNoPodCurrent(t *testing.T) {
	for _, labelled := range []bool{false, true} {
		a := newAdvanced(t, 2, standard)
		a.set.SetAnnotations(map[string]string{appsv1.DeprecatedTemplateGeneration: "3"})
		a.change(func(map[string]any) {})
		a.settle()
		for _, p := range a.pods {
			if label, made := p.Labels["pod-template-generation"]; made {
				t.Errorf("a new pod has the generation %q, which a native set could take for its own", label)
			}
			if labelled { // the native controller has made it
				p.Labels["pod-template-generation"] = "3"
				a.changed(p)
			}
		}
		a.image("img:v2")
		a.settle()
		for _, p := range a.pods {
			if p.Spec.Containers[0].Image != "img:v2" {
				t.Errorf("labelled %v: pod %s still runs %s", labelled, p.Name, p.Spec.Containers[0].Image)
			}
		}
	}
}

// TestAChangeThatOpenKruiseBegan is gone on with: the state knows images only, and its digest is the same as before.
func TestAChangeThatOpenKruiseBegan(t *testing.T) {
	a := newAdvanced(t, 1, inPlace)
	a.settle()
	a.image("img:v2")
	a.idle = func(*corev1.Pod) bool { return true }
	a.settle()
	p := a.only()
	p.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1"
	p.Annotations[api.InPlaceUpdateState] = `{"revision":"x","updateTimestamp":"` + p.CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z") +
		`","lastContainerStatuses":{"c":{"imageID":"sha256:same"}},"updateImages":true}`
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == api.InPlaceUpdateReady {
			p.Status.Conditions[i].LastTransitionTime = p.CreationTimestamp
		}
	}
	p.Status.ContainerStatuses[0].State.Running.StartedAt = p.CreationTimestamp
	a.changed(p)
	a.forgetLog()
	a.settle()
	if stateOf(a.only(), api.InPlaceUpdateReady) != corev1.ConditionFalse || len(a.wrote("patch")) != 0 || len(a.wrote("delete")) != 0 {
		t.Fatalf("conditions %v, writes %v: the node does not run the change yet", a.only().Status.Conditions, a.log)
	}
	a.idle = func(*corev1.Pod) bool { return false }
	a.settle()
	a.wantPod("img:v2", p)
}

// announce makes p a pod that OpenKruise is about to change in place, with a grace period of ten seconds.
func (a *advanced) announce(p *corev1.Pod, graceKey, stateKey, images string) {
	hash := p.Labels["controller-revision-hash"]
	p.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1"
	p.Annotations = map[string]string{
		stateKey: `{"revision":"` + hash + `","updateTimestamp":"` + a.clock.Now().UTC().Format(time.RFC3339) + `","lastContainerStatuses":null,"updateImages":true}`,
		graceKey: `{"revision":"` + hash + `","containerImages":` + images + `,"graceSeconds":10}`,
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == api.InPlaceUpdateReady {
			c.Status, c.Reason, c.LastTransitionTime = corev1.ConditionFalse, api.ReasonStartInPlaceUpdate, metav1.NewTime(a.clock.Now())
		}
	}
	p.Spec.Containers[0].Image, p.Status.ContainerStatuses[0].Image = "img:v1", "img:v1"
	a.changed(p)
}

// TestAGracePeriodThatOpenKruiseBegan is waited for, and then the change is made that was announced; the pod has had the label of the new
// revision all the time.
func TestAGracePeriodThatOpenKruiseBegan(t *testing.T) {
	for graceKey, stateKey := range map[string]string{
		api.InPlaceUpdateGrace: api.InPlaceUpdateState, api.InPlaceUpdateGraceOld: api.InPlaceUpdateStateOld,
	} {
		a := newAdvanced(t, 1, inPlace)
		a.image("img:v2")
		a.settle()
		a.allEvents()
		p := a.only()
		a.announce(p, graceKey, stateKey, `{"c":"img:v2"}`)
		a.forgetLog()
		for range 9 {
			a.kubelets()
			after, err := a.c.Reconcile(t.Context(), a.key)
			if err != nil || after <= 0 || after > 10*time.Second || len(a.log) > 0 && len(a.wrote("patch"))+len(a.wrote("patch-status")) > 0 {
				t.Fatalf("%s: after %v, error %v, writes %v", graceKey, after, err, a.log)
			}
			a.clock.Step(time.Second)
		}
		a.clock.Step(2 * time.Second)
		a.settle()
		a.wantPod("img:v2", p)
		if got := a.wrote("patch"); len(got) != 1 || len(a.wrote("delete")) != 0 {
			t.Errorf("%s: patches %v, deletes %v", graceKey, got, a.wrote("delete"))
		}
		for _, key := range []string{api.InPlaceUpdateGrace, api.InPlaceUpdateGraceOld, api.InPlaceUpdateStateOld} {
			if text, left := a.only().Annotations[key]; left {
				t.Errorf("%s: annotation %s is left: %s", graceKey, key, text)
			}
		}
		if events := a.allEvents(); strings.Count(events, "SuccessfulUpdatePodInPlace") != 1 {
			t.Errorf("%s: events:\n%s", graceKey, events)
		}
	}
}

// TestAGracePeriodThatCannotEnd: nobody can tell what the pod was to become, or it has become something else since.
func TestAGracePeriodThatCannotEnd(t *testing.T) {
	a := newAdvanced(t, 1, inPlace)
	a.image("img:v2")
	a.settle()
	p := a.only()
	a.announce(p, api.InPlaceUpdateGrace, api.InPlaceUpdateState, `"no map"`)
	a.settle()
	if a.only().UID == p.UID || !slices.Equal(a.decisions, []rollout.Detail{rollout.DetailUnfinished}) || a.only().Spec.Containers[0].Image != "img:v2" {
		t.Errorf("uid %s, decisions %v, image %s", a.only().UID, a.decisions, a.only().Spec.Containers[0].Image)
	}
}

// TestATemplateChangedInAGracePeriodOfOpenKruise makes the announced change first, and then the newest.
func TestATemplateChangedInAGracePeriodOfOpenKruise(t *testing.T) {
	a := newAdvanced(t, 1, inPlace)
	a.image("img:v2")
	a.settle()
	p := a.only()
	a.announce(p, api.InPlaceUpdateGrace, api.InPlaceUpdateState, `{"c":"img:v2"}`)
	a.image("img:v3")
	a.clock.Step(11 * time.Second)
	a.settle()
	a.wantPod("img:v3", p)
}

// TestContainersThatOpenKruiseLeftForLater are changed when those before them are ready.
func TestContainersThatOpenKruiseLeftForLater(t *testing.T) {
	a := newAdvanced(t, 1, inPlace)
	a.image("img:v2")
	a.settle()
	p := a.only()
	a.announce(p, "unused", api.InPlaceUpdateState, `{}`)
	p = a.only()
	state := func(check string) string {
		return `{"revision":"x","updateTimestamp":"` + a.clock.Now().UTC().Format(time.RFC3339) + `","nextContainerImages":{"c":"img:v2"},"preCheckBeforeNext":{"containersRequiredReady":["` + check + `"]}}`
	}
	p.Annotations[api.InPlaceUpdateState] = state("another")
	a.changed(p)
	a.settle()
	if got := a.only(); got.Spec.Containers[0].Image != "img:v1" || stateOf(got, api.InPlaceUpdateReady) != corev1.ConditionFalse {
		t.Fatalf("image %s, conditions %v: another container has to be ready first", got.Spec.Containers[0].Image, got.Status.Conditions)
	}
	p = a.only()
	p.Annotations[api.InPlaceUpdateState] = state("c")
	p.Status.ContainerStatuses[0].Ready = true
	a.changed(p)
	a.settle()
	a.wantPod("img:v2", p)
}
