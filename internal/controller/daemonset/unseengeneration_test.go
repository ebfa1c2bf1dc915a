// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
)

// TestOutageDuringAnEditOfTheSet: next to the controller of Kubernetes a user edits a field outside the template while a canary soaks. The soak starts again because of an outage
// that no pass saw, as without that edit; also if a new leader begins with that edit.
func TestOutageDuringAnEditOfTheSet(t *testing.T) {
	for _, c := range []struct{ edited, leads bool }{{}, {edited: true}, {leads: true}, {edited: true, leads: true}} {
		e, r := soakingEdge(t)
		e.clock.Step(9 * time.Minute)
		e.mustPass()
		e.blinks("img:v2")
		if c.edited {
			e.set.SetGeneration(e.set.GetGeneration() + 1) // minReadySeconds, for example
			e.set.SetResourceVersion(e.next())
			e.seeSet()
		}
		if c.leads {
			last := r.last()
			r.Stored, e.c.states = &last, map[clustercache.Key]*state{}
		}
		e.mustPass()
		e.upstream()
		e.clock.Step(time.Second)
		e.mustPass()
		e.clock.Step(2 * time.Minute)
		e.mustPass()
		if got := r.last(); got.Phase != v1alpha1.PhaseSoaking || got.Waves[0].SoakRestarts != 1 {
			t.Errorf("%+v: 2 minutes after an outage in a soak of 10 minutes: %s, %+v", c, got.Phase, got.Waves[0])
		}
	}
}

// soakingEdge is a set next to the controller of Kubernetes of which the canary soaks for ten minutes.
func soakingEdge(t *testing.T) (*edge, *rules) {
	e := newEdge(t, 4, "external", nil)
	p := canaryPolicy()
	p.Spec.Waves[0].Soak = &metav1.Duration{Duration: 10 * time.Minute}
	r := &rules{Governance: Governance{Policies: []*policy.Policy{policy.Read(p)}}}
	e.c.Policies = r
	e.roll()
	e.edit("img:v2")
	e.roll()
	if got := r.last(); got.Phase != v1alpha1.PhaseSoaking {
		t.Fatalf("%+v", got)
	}
	return e, r
}

// blinks lets the pods of an image be ready again since now.
func (e *edge) blinks(image string) {
	for _, pod := range e.pods {
		if pod.Spec.Containers[0].Image == image {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(e.clock.Now())}}
			e.changed(pod)
		}
	}
}
