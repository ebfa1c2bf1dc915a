// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestPaceAfterASlowDelete: minTimeBetween counts from when the API server has deleted a pod, which may be seconds after the decision: a webhook takes 4 of them.
func TestPaceAfterASlowDelete(t *testing.T) {
	w := newWorld(t, 4, func(ds *appsv1.DaemonSet) {
		all := intstr.FromString("100%")
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &all}}
	})
	p := canaryPolicy()
	p.Spec.Waves = nil
	p.Spec.Pace = &v1alpha1.Pace{MinTimeBetween: &metav1.Duration{Duration: 5 * time.Second}}
	w.c.Policies = &rules{Governance: Governance{Policies: []*policy.Policy{policy.Read(p)}}}
	w.settle()
	w.edit("img:v2")
	var starts []time.Time
	w.before = func(verb, _ string) error {
		if verb == "delete" {
			if len(starts) == 0 {
				w.clock.Step(4 * time.Second)
			}
			starts = append(starts, w.clock.Now())
		}
		return nil
	}
	for range 200 {
		w.mustPass()
		w.kubelets()
		w.clock.Step(100 * time.Millisecond)
	}
	if len(starts) < 2 {
		t.Fatal(starts)
	}
	if gap := starts[1].Sub(starts[0]); gap < 5*time.Second {
		t.Errorf("the second pod was deleted %s after the first one, and minTimeBetween is 5s", gap)
	}
}
