// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestAPreparedPodThatMayNotBeDeletedIsRestored: a preDelete hook has released a pod, and then a policy protects it. It would stay prepared and keep the budget
// of one for ever; it is put back into use, the others are updated, and the delete is tried again less and less often.
func TestAPreparedPodThatMayNotBeDeletedIsRestored(t *testing.T) {
	for name, answer := range map[string]error{
		"a policy":            apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("it is protected")),
		"a webhook is down":   apierrors.NewInternalError(errors.New("failed calling webhook")),
		"a webhook is silent": apierrors.NewTimeoutError("too slow", 0),
	} {
		for hook, variant := range map[string]string{"ready": preDelete, "not ready": preDeleteNotReady} {
			a := newAdvanced(t, 3, variant)
			a.settle()
			a.image("img:v2")
			protected := ""
			a.before = func(verb, name string) error {
				if verb == "delete" && protected == "" {
					protected = name
				}
				if verb == "delete" && name == protected {
					return answer
				}
				return nil
			}
			a.forgetLog()
			a.passAndRelease(120)
			if updated, available := a.status("updatedNumberScheduled"), a.status("numberAvailable"); updated != 2 || available != 3 {
				t.Errorf("%s, %s: after two minutes %d of 3 pods are updated, want 2, and %d available, want 3: %v", name, hook, updated, available, a.set.Object["status"])
			}
			if tries := a.count("delete"); tries > 16 {
				t.Errorf("%s, %s: %d deletes in two minutes", name, hook, tries)
			}
			a.before = nil
			a.passAndRelease(180)
			if a.status("updatedNumberScheduled") != 3 || a.status("numberAvailable") != 3 {
				t.Errorf("%s, %s: three minutes after the pod is no longer protected, the status is %v", name, hook, a.set.Object["status"])
			}
		}
	}
}

// passAndRelease makes passes, after each of which the hook of the pods that are prepared releases them.
func (a *advanced) passAndRelease(seconds int) {
	for range seconds {
		_ = a.pass()
		for _, p := range a.preparing() {
			delete(p.Labels, "block")
			a.changed(p)
		}
		a.kubelets()
		a.clock.Step(time.Second)
	}
}
