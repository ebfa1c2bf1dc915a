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

// A change in place has arrived, and before the pod is put into use the set is changed again, and a policy refuses that change: the pod is put into use
// with what it runs, and the others are updated.
func TestAChangeThatIsRefusedAfterAnotherHasArrived(t *testing.T) {
	a := newAdvanced(t, 3, inPlace)
	a.settle()
	a.forgetLog()
	a.image("img:v2")
	a.mustPass()
	patched := a.wrote("patch")
	if len(patched) != 1 {
		t.Fatalf("patched %v, want one pod", patched)
	}
	a.kubelets()
	a.image("img:v3")
	a.before = func(verb, name string) error {
		if verb == "patch" && name == patched[0] {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("protected"))
		}
		return nil
	}
	last := a.passesFor(2 * time.Minute)
	updated := 0
	for name, p := range a.pods {
		if p.Spec.Containers[0].Image == "img:v3" {
			updated++
		}
		if stateOf(p, corev1.PodReady) != corev1.ConditionTrue {
			t.Errorf("pod %s, which is protected: %t, is not ready", name, name == patched[0])
		}
	}
	if updated != 2 {
		t.Errorf("%d pods are updated, want all but the one that is protected; the last error: %v", updated, last)
	}
	a.before = nil
	_ = a.passesFor(5 * time.Minute)
	if image := a.pods[patched[0]].Spec.Containers[0].Image; image != "img:v3" {
		t.Errorf("the pod has image %s after the policy has gone", image)
	}
}
