// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// health returns which of the conditions Ready, Reconciling and Stalled is True, and its reason; "not observed" while the status is of another generation.
func (a *advanced) health() string {
	status, _ := a.set.Object["status"].(map[string]any)
	if status == nil || status["observedGeneration"] != a.set.GetGeneration() {
		return "not observed"
	}
	var is []string
	for _, kind := range []string{"Ready", "Reconciling", "Stalled"} {
		if c := a.condition(kind); c["status"] == "True" {
			is = append(is, kind+" "+c["reason"].(string))
		}
	}
	return strings.Join(is, ", ")
}

// TestHealthInEveryMomentOfARoll: from the change of the template to the last available pod, the set is never Ready in between.
func TestHealthInEveryMomentOfARoll(t *testing.T) {
	a := newAdvanced(t, 3, standard)
	a.settle()
	if got := a.health(); got != "Ready Complete" {
		t.Fatalf("at rest: %s", got)
	}
	a.image("img:v2")
	if got := a.health(); got != "not observed" {
		t.Errorf("after the change: %s", got)
	}
	for moments := 0; ; moments++ {
		updated := 0
		for _, p := range a.pods {
			if p.Spec.Containers[0].Image == "img:v2" && p.DeletionTimestamp == nil && stateOf(p, corev1.PodReady) == corev1.ConditionTrue {
				updated++
			}
		}
		got := a.health()
		if got == "Ready Complete" {
			if updated != 3 || moments < 4 {
				t.Errorf("ready with %d updated pods after %d moments", updated, moments)
			}
			return
		}
		if got != "not observed" && got != "Reconciling InProgress" || moments > 50 {
			t.Fatalf("moment %d: %s", moments, got)
		}
		a.mustPass()
		a.clock.Step(time.Second)
		a.mustPass()
		a.kubelets()
	}
}

// TestAPausedSetIsReady: what the specification of the set keeps back is as it was asked for.
func TestAPausedSetIsReady(t *testing.T) {
	a := newAdvanced(t, 2, standard)
	a.settle()
	a.change(func(spec map[string]any) {
		spec["updateStrategy"] = map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"paused": true}}
		container(spec)["image"] = "img:v2"
	})
	a.settle()
	if got := a.health(); got != "Ready Held" {
		t.Errorf("paused: %s", got)
	}
	a.change(func(spec map[string]any) {
		delete(spec, "updateStrategy")
	})
	a.mustPass()
	if got := a.health(); got != "Reconciling InProgress" {
		t.Errorf("continued: %s", got)
	}
	a.settle()
	if got := a.health(); got != "Ready Complete" {
		t.Errorf("in the end: %s", got)
	}
}

// TestTroubleStalls: ten minutes after a pod has begun to fail the set is Stalled, although no event reports that, and no write comes in between.
func TestTroubleStalls(t *testing.T) {
	a := newAdvanced(t, 1, standard)
	a.settle()
	a.clock.Step(time.Minute)
	p := a.only()
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(a.clock.Now())}}
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: "no secret"}}
	a.changed(p)
	a.mustPass()
	if got := a.health(); got != "Reconciling PodsFailing" {
		t.Fatalf("at once: %s", got)
	}
	a.forgetLog()
	after, err := a.c.Reconcile(t.Context(), a.key)
	if err != nil || after <= 0 || after > rollout.StallAfter {
		t.Fatalf("comes back after %v, %v", after, err)
	}
	a.clock.Step(rollout.StallAfter - time.Second)
	a.mustPass()
	if writes := a.wrote("status"); len(writes) > 0 {
		t.Errorf("%d writes while nothing changes", len(writes))
	}
	a.clock.Step(time.Second)
	a.mustPass()
	if got := a.health(); got != "Stalled PodsFailing" {
		t.Errorf("after ten minutes: %s", got)
	}
}

// TestHealthUnderAPolicy: what the policy keeps back is an update in progress, unless a healthy wave is enough for it, and a revision that it rejects stalls.
func TestHealthUnderAPolicy(t *testing.T) {
	for _, enough := range []bool{false, true} {
		a := newAdvanced(t, 4, standard)
		p := canaryPolicy()
		p.Spec.Targets = []v1alpha1.Target{{APIVersion: "apps.kruise.io/v1beta1", Kind: "DaemonSet", Name: "ds"}}
		want := "Reconciling Policy"
		if enough {
			p.Spec.ReadyWhen, want = v1alpha1.ReadyWaveHealthy, "Ready Policy"
		}
		r := &rules{Governance: Governance{Policies: []*policy.Policy{policy.Read(p)}}}
		a.c.Policies = r
		a.settle()
		a.settle()
		a.image("img:v2")
		a.settle()
		if got := a.health(); r.last().Phase != v1alpha1.PhaseSoaking || got != want {
			t.Errorf("%s: %s, want %s", r.last().Phase, got, want)
		}
		a.clock.Step(10 * time.Second)
		a.settle()
		if got := a.health(); r.last().Phase != v1alpha1.PhaseWaitingForApproval || got != want {
			t.Errorf("%s: %s, want %s", r.last().Phase, got, want)
		}
		r.approve("canary", r.last().TargetRevision)
		r.Approvals[0].Spec.Decision = v1alpha1.Reject
		a.mustPass()
		if got := a.health(); got != "Stalled PolicyRejected" {
			t.Errorf("%s: %s", r.last().Phase, got)
		}
		r.Policies, r.Approvals = nil, nil
		a.mustPass()
		a.clock.Step(time.Second)
		a.mustPass()
		if got := a.health(); got != "Stalled PolicyStalled" {
			t.Errorf("without the policy: %s", got)
		}
	}
}
