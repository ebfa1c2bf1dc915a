// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// A webhook keeps the labels of one pod, so a change in place leaves it an old one. That is shown like a refusal, the pod serves, and the others are updated.
func TestAWebhookThatKeepsTheLabelsOfOnePod(t *testing.T) {
	a := newAdvanced(t, 3, inPlace)
	a.settle()
	first := ""
	a.mutate = func(was, p *corev1.Pod) {
		if is, patched := was.Labels[appsv1.ControllerRevisionHashLabelKey], p.Labels[appsv1.ControllerRevisionHashLabelKey]; is != patched && (first == "" || first == p.Name) {
			first, p.Labels = p.Name, rehashed(p.Labels, is)
		}
	}
	a.image("img:v2")
	a.forgetLog()
	last := a.passesFor(5 * time.Minute)
	updated := 0
	for _, p := range a.pods {
		if p.Name != first && p.Spec.Containers[0].Image == "img:v2" {
			updated++
		}
		if stateOf(p, corev1.PodReady) != corev1.ConditionTrue {
			t.Errorf("pod %s, the labels of which are kept: %t, is not ready", p.Name, p.Name == first)
		}
	}
	if updated != 2 || len(a.wrote("patch")) > 30 {
		t.Errorf("%d other pods have the new image after %d changes; the last error: %v", updated, len(a.wrote("patch")), last)
	}
	if events := a.allEvents(); !strings.Contains(events, "webhook") {
		t.Errorf("events:\n%s", events)
	}
}
