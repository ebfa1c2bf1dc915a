// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// TestNumbersAddUp: the page counts the nodes that have a cell and do not need a pod, such as one that was cut off.
func TestNumbersAddUp(t *testing.T) {
	b := browse(t)
	objects := fakecluster.Roll{Name: set, Advanced: true, Letters: "uuOOO"}.Objects(t)
	for _, object := range objects {
		if n, is := object.(*corev1.Node); is && n.Name == "node-5" {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoSchedule})
		}
	}
	cluster := fakecluster.New(t, objects...)
	address := served(t, cluster)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell")+" === 5"),
		chrome.Until(shows(".summary", "4 need a pod, 2 updated, 4 available; 1 more needs no new one, and has a pod, or had one")))
	b.Quiet()
}
