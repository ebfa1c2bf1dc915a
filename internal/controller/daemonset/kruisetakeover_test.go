// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	api "everynode.dev/everynode/api/kruise"
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
