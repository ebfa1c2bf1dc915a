// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// A webhook keeps the labels of one pod, so a change in place leaves it an old one. That is shown like a refusal, the pod serves, and the others are updated; also when
// another webhook is so slow that no pass waits for the changes.
func TestAWebhookThatKeepsTheLabelsOfOnePod(t *testing.T) {
	for _, slow := range []bool{false, true} {
		a := newAdvanced(t, 3, inPlace)
		a.settle()
		first := ""
		a.mutate = func(was, p *corev1.Pod) {
			if is, patched := was.Labels[appsv1.ControllerRevisionHashLabelKey], p.Labels[appsv1.ControllerRevisionHashLabelKey]; is != patched && (first == "" || first == p.Name) {
				first, p.Labels = p.Name, rehashed(p.Labels, is)
			}
		}
		var last error
		if slow {
			a.slowPatches()
		}
		a.image("img:v2")
		a.forgetLog()
		for range 1200 {
			a.kubelets()
			last = a.pass()
			if slow {
				a.c.Executor.Slow.Wait() // kubelets write too
				a.c.slow.running.Wait()
			}
			a.clock.Step(time.Second)
		}
		updated := 0
		for _, p := range a.pods {
			if p.Name != first && p.Spec.Containers[0].Image == "img:v2" {
				updated++
			}
			if stateOf(p, corev1.PodReady) != corev1.ConditionTrue {
				t.Errorf("slow %t: pod %s, the labels of which are kept: %t, is not ready", slow, p.Name, p.Name == first)
			}
		}
		if updated != 2 || len(a.wrote("patch")) > 90 {
			t.Errorf("slow %t: %d other pods have the new image after %d changes; the last error: %v", slow, updated, len(a.wrote("patch")), last)
		}
		if events := a.allEvents(); !strings.Contains(events, "webhook has changed") {
			t.Errorf("slow %t: events:\n%s", slow, events)
		}
	}
}
