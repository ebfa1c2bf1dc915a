// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestAPreparedPodThatMayNotBeDeletedIsRestored: a preDelete hook has released a pod, and then a policy protects it. It would stay prepared and keep the budget
// of one for ever; it is put back into use, the others are updated, and the delete is tried again less and less often, also if the hook wants to be asked each time.
func TestAPreparedPodThatMayNotBeDeletedIsRestored(t *testing.T) {
	for name, answer := range denials() {
		for hook, variant := range map[string]string{"ready": preDelete, "not ready": preDeleteNotReady} {
			for _, again := range []bool{false, true} {
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
				what := name + ", " + hook
				if again {
					what += ", the hook is asked again"
				}
				a.wantOthersUpdated(what, "delete", 16, func() { a.passAndRelease(again) })
			}
		}
	}
}

// passAndRelease makes a pass, after which the hook of the pods that are prepared releases them, and is armed again, if so, on those that are not.
func (a *advanced) passAndRelease(arms bool) {
	_ = a.pass()
	prepared := map[*corev1.Pod]bool{}
	for _, p := range a.preparing() {
		prepared[p] = true
		delete(p.Labels, "block")
		a.changed(p)
	}
	for _, p := range a.pods {
		if arms && !prepared[p] && p.Labels["block"] == "" && len(a.preparing()) == 0 {
			p.Labels["block"] = "true"
			a.changed(p)
		}
	}
	a.kubelets()
	a.clock.Step(time.Second)
}
