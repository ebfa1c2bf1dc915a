// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// runsItsImage is whether the kubelet has recreated the container of a pod since its image was changed.
func runsItsImage(p *corev1.Pod) bool {
	return p.Status.ContainerStatuses[0].Image == p.Spec.Containers[0].Image
}

// TestAChangeWithTheGateOpenIsOneWrite: each pod is patched once, within the budget, and no condition is written before or after.
func TestAChangeWithTheGateOpenIsOneWrite(t *testing.T) {
	a := newAdvanced(t, 5, `{updateStrategy: {rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxUnavailable: 2}}}`)
	a.gateOpen()
	a.settle()
	for _, p := range a.pods {
		if len(p.Spec.ReadinessGates) > 0 {
			t.Fatalf("pod %s has gates %v", p.Name, p.Spec.ReadinessGates)
		}
	}
	most := 0
	a.after = func(string, string) error {
		n := 0
		for _, p := range a.pods {
			if !runsItsImage(p) {
				n++
			}
		}
		most = max(most, n)
		return nil
	}
	a.forgetLog()
	a.image("img:v2")
	a.settle()
	if patches, conditions := len(a.wrote("patch")), len(a.wrote("patch-status")); patches != 5 || conditions != 0 || len(a.wrote("delete")) != 0 {
		t.Errorf("%d patches, %d writes of conditions, deletes %v, want 5 patches alone", patches, conditions, a.wrote("delete"))
	}
	if most != 2 || a.status("updatedNumberScheduled") != 5 || a.status("numberAvailable") != 5 {
		t.Errorf("at most %d pods were changed at once, want 2; updated %d, available %d", most, a.status("updatedNumberScheduled"), a.status("numberAvailable"))
	}
}

// TestALostAnswerToAnOpenPatchKeepsItsSlot: the pod says that it is ready, and perhaps it has been changed. No other one is touched until that is clear.
func TestALostAnswerToAnOpenPatchKeepsItsSlot(t *testing.T) {
	for _, took := range []bool{true, false} {
		a := newAdvanced(t, 3, inPlace)
		a.gateOpen()
		a.settle()
		a.image("img:v2")
		a.watch = false
		a.fail("patch", apierrors.NewTimeoutError("no answer", 1), took)
		if err := a.pass(); err == nil {
			t.Fatal("a lost answer has to fail the pass")
		}
		a.after = nil
		a.forgetLog()
		for range 3 {
			a.mustPass()
		}
		if writes := a.wrote("patch"); len(writes) != 0 {
			t.Errorf("took effect %t: %v was patched while the first patch may still take effect", took, writes)
		}
	}
}

// TestARefusedOpenPatchTakesNoSlot: the pod was not touched, so it serves, and the others are updated.
func TestARefusedOpenPatchTakesNoSlot(t *testing.T) {
	a := newAdvanced(t, 3, inPlace)
	a.gateOpen()
	a.settle()
	var protected string
	a.before = func(verb, name string) error {
		if verb == "patch" && (protected == "" || protected == name) {
			protected = name
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("policy"))
		}
		return nil
	}
	a.image("img:v2")
	for range 30 {
		a.deliver()
		_ = a.pass() // it fails while a pod is refused
		a.kubelets()
		a.clock.Step(time.Second)
	}
	updated := 0
	for _, p := range a.pods {
		if p.Spec.Containers[0].Image == "img:v2" {
			updated++
		}
	}
	if updated != 2 || a.status("numberAvailable") != 3 {
		t.Errorf("%d pods were updated, and %d are available; want all but %s, and all", updated, a.status("numberAvailable"), protected)
	}
}

// TestMinReadyAfterAnOpenChange: the kubelet of these tests restarts a container between two reports, so the condition Ready stays as it was before the change.
// minReadySeconds counts from the change all the same, unless a clock that was wrong by a day has dated it.
func TestMinReadyAfterAnOpenChange(t *testing.T) {
	for name, c := range map[string]struct {
		ahead   time.Duration
		changed int // after 15 s, with minReadySeconds: 20 and a budget of one
	}{
		"right clock":          {0, 1},
		"clock that was ahead": {24 * time.Hour, 2},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAdvanced(t, 2, `{minReadySeconds: 20, updateStrategy: {rollingUpdate: {rollingUpdateType: InPlaceIfPossible}}}`)
			a.gateOpen()
			a.settle()
			a.clock.Step(time.Hour)
			a.clock.Step(c.ahead)
			a.image("img:v2")
			a.deliver()
			a.mustPass()
			a.clock.SetTime(a.clock.Now().Add(-c.ahead))
			for range 15 {
				a.kubelets()
				a.deliver()
				a.mustPass()
				a.clock.Step(time.Second)
			}
			changed := 0
			for _, p := range a.pods {
				if p.Spec.Containers[0].Image == "img:v2" {
					changed++
				}
			}
			if changed != c.changed {
				t.Errorf("%d pods were changed, want %d", changed, c.changed)
			}
		})
	}
}
