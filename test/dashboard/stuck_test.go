// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// TestTheCellOfAStuckPod does not look like one of a pod that starts: it has a colour and a character of its own, which the legend explains and selects.
func TestTheCellOfAStuckPod(t *testing.T) {
	b := browse(t)
	objects := fakecluster.Roll{Name: set, Advanced: true, Letters: "uaao"}.Objects(t)
	for _, object := range objects {
		if p, is := object.(*corev1.Pod); is && p.Spec.NodeName == "node-2" {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
		}
	}
	cluster := fakecluster.New(t, objects...)
	address := served(t, cluster)
	legend := `[...document.querySelectorAll(".legend button")].map((e) => e.innerText.trim())`
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell.s")+" === 1 && "+chrome.Count(".cell.g3")+" === 1"),
		chrome.Until(chrome.Find(".cell.s")+`.innerText === "!"`), chrome.Until(legend+`.includes("! does not start 1") && `+legend+`.includes("◐ starting 1")`))
	b.accessible("a stuck pod")
	b.Does("only these", chrome.Press(`[...document.querySelectorAll(".legend button")].find((e) => e.innerText.includes("does not start"))`), chrome.Until(chrome.Count(".cell:not(.dim)")+" === 1"))
	b.Does("the panel", chrome.Press(chrome.Find(".cell.s")), chrome.Until(chrome.Count(".panel.node .mark.s")+" === 1"))
	b.Quiet()
}
