// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A webhook keeps the image of one pod, so a change in place of it changes nothing for the node.
// The pod is put into use again after a while, and the others are updated.
func TestAWebhookThatKeepsTheImageOfOnePod(t *testing.T) {
	a := newAdvanced(t, 3, inPlace)
	a.settle()
	first := ""
	a.mutate = func(was, p *corev1.Pod) {
		if first == "" || first == p.Name {
			first, p.Spec.Containers[0].Image = p.Name, was.Spec.Containers[0].Image
		}
	}
	a.image("img:v2")
	last := a.passesFor(5 * time.Minute)
	updated := 0
	for _, p := range a.pods {
		if p.Spec.Containers[0].Image == "img:v2" {
			updated++
		}
		if stateOf(p, corev1.PodReady) != corev1.ConditionTrue {
			t.Errorf("pod %s, the image of which is kept: %t, is not ready", p.Name, p.Name == first)
		}
	}
	if updated != 2 || len(a.pods) != 3 {
		t.Errorf("%d of %d pods have the new image; the last error: %v", updated, len(a.pods), last)
	}
}
