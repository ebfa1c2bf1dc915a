// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// governed stores a rollout policy for the imaginary set, with these waves, and with what a manager has reported of it.
func governed(t *testing.T, cluster *fakecluster.Cluster, waves, reported string) {
	t.Helper()
	policy := fakecluster.Object(t, strings.TrimSuffix(inWaves(waves), "}")+`, "status": {"sets": [{"apiVersion": "apps.kruise.io/v1beta1", "name": "`+set+`", "enforcement": "Full",
		"targetRevision": "`+set+`-`+fakecluster.NewHash+`", "targetNumber": 2, "committedRevision": "`+set+`-`+fakecluster.OldHash+`", `+reported+`}]}}`)
	policies := cluster.Dynamic.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourcePolicies)).Namespace("default")
	_, err := policies.Create(t.Context(), policy, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		before, getErr := policies.Get(t.Context(), policy.GetName(), metav1.GetOptions{})
		if getErr != nil {
			t.Fatal(getErr)
		}
		before.Object["spec"], before.Object["status"] = policy.Object["spec"], policy.Object["status"]
		_, err = policies.Update(t.Context(), before, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestThePanelOfANode says at once in which wave the node is and what happens next to it, and so does its explanation when the node has changed.
func TestThePanelOfANode(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uuo", set)
	governed(t, cluster, `{"name": "canary", "nodes": {"count": 2}, "after": [{"type": "Approval"}]}`, `"phase": "WaitingForApproval", "wave": "canary", "next": {"action": "Approve"}, "waves": [
		{"name": "canary", "nodes": 2, "updated": 2, "available": 2, "phase": "WaitingForApproval"}, {"name": "remaining", "nodes": 1, "updated": 0, "available": 0, "phase": "Pending"}]`)
	b.Does("a node", firstSet(address), chrome.Until(shows("main", "Waves of rolloutpolicy/waves")),
		chrome.Press(chrome.Find(".cell[data-node=node-3]")), chrome.Until(shows(".panel", "Wave: remaining, which is Pending: 0 of 1 nodes updated and available.")),
		chrome.Until(shows(".panel [data-next]", "Next: a user approves, with kubectl everynode approve ads/agent.")), chrome.Until(shows(".panel [data-remedies]", "The buttons for that: approve (wave canary) or reject (revision ")))
	b.Does("another node", chrome.Press(chrome.Find(".cell[data-node=node-1]")), chrome.Until(shows(".panel", "Wave: canary")), chrome.Until(shows(".panel [data-next]", "Next: nothing.")),
		chrome.Press(chrome.Named(".panel button", "Explain with rules and values")), chrome.Until(shows(".panel [data-explained]", "Read at ")))
	var explained string
	b.Does("its explanation", chromedp.Text(".panel [data-explained]", &explained))
	if strings.Contains(explained, "this node uses 1 of it") {
		t.Errorf("a node at rest uses the budget: %s", explained)
	}
	changePod(t, cluster, 0, corev1.ConditionFalse)
	b.Does("the change", chrome.Until(shows(".panel", "wait-available")), chrome.Until(`document.querySelector(".panel [data-next]").ariaBusy === "false" && `+shows(".panel [data-next]", "Next: its pod becomes available.")),
		chrome.Until(shows(".panel [data-explained]", "this node uses 1 of it")))
	b.accessible("a node")
	b.Quiet()
}

// TestThePanelOfANodeThatDoesNotContinue says what is true of a node that is not ready, and of a pod that does not start.
func TestThePanelOfANodeThatDoesNotContinue(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uAoo", set)
	b.Does("a node that is not ready", firstSet(address), chrome.Press(chrome.Find(".cell[data-node=node-2]")),
		chrome.Until(shows(".panel [data-next]", "Next: nothing before the node is ready again; then it continues.")))
	changePod(t, cluster, 0, corev1.ConditionFalse)
	pod, err := cluster.Kubernetes.CoreV1().Pods("default").Get(t.Context(), set+"-node-1-"+fakecluster.NewHash[:3], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}
	pod.Status.ContainerStatuses, pod.ResourceVersion = []corev1.ContainerStatus{{Name: "agent", State: waiting}}, pod.ResourceVersion+"0"
	if _, err := cluster.Kubernetes.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.Does("a pod that does not start", chrome.Press(chrome.Find(".cell[data-node=node-1]")), chrome.Until(shows(".panel [data-next]", "Next: nothing by itself: a user must correct why the pod does not start")),
		chrome.Until(shows(".next", "1 node does not start (ImagePullBackOff): a user must correct the cause or return to the previous revision, with kubectl everynode undo ads/agent")),
		chrome.Until(shows("h1", "stuck")), chrome.Until(shows(".summary", "No progress for ")))
	b.Does("the list", chrome.Press(chrome.Find("main a[href='#/']")), chrome.Until(shows("table.sets", "stuck")), chrome.Until(shows("table.sets", "(ImagePullBackOff)")),
		chrome.Until(`document.querySelector("table.sets .bar .done").style.width === "0%"`))
	b.Quiet()
}

// TestAFailureIsShownOnce: the summary has its message once, and no wave of it rolls. A filter that nothing matches says so.
func TestAFailureIsShownOnce(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uoO", set)
	governed(t, cluster, `{"name": "canary", "nodes": {"count": 1}}, {"name": "rest", "nodes": {"percent": 100}}`, `"phase": "Failed", "wave": "canary", "failure": {"wave": "canary", "action": "Pause", "message": "Wave canary failed."},
		"blocking": [{"reason": "Failed", "message": "Wave canary failed."}], "waves": [{"name": "canary", "nodes": 1, "updated": 1, "available": 1, "phase": "Rolling"}, {"name": "rest", "nodes": 1, "updated": 0, "available": 0, "phase": "Pending"}]`)
	b.Does("the filter", log.Enable(), chromedp.Navigate(address), chromedp.WaitVisible("table.sets a"), chrome.Enter("input[type=search]", "nothing-like-this"),
		chrome.Until(shows("main", "No daemon set matches.")), chrome.Enter("input[type=search]", " "))
	b.Does("the failure", chrome.Press(chrome.Find("table.sets a")), chrome.Until(shows(".summary", "The revision has failed: Wave canary failed.")), chrome.Until(chrome.Count(".blocking")+" === 0"),
		chrome.Until(`document.querySelector(".waves li .badge").innerText === "Failed"`), chrome.Until(shows(".next", "with kubectl everynode undo ads/agent")))
	b.Quiet()
}

// TestTimesNameTheirZone: all times of the page are UTC, as those in the messages of the cluster, wherever the browser is. Windows have the zone of their schedule.
func TestTimesNameTheirZone(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uuO", set)
	governed(t, cluster, `{"name": "canary", "nodes": {"count": 2}}], "windows": [{"schedule": "0 8 * * *", "duration": "8h"}, {"schedule": "0 22 * * *", "duration": "1h", "timeZone": "Europe/Berlin"}],
		"freezes": [{"from": "2026-12-20T00:00:00+01:00", "to": "2027-01-02T00:00:00Z"}`, `"phase": "WaitingForWindow", "wave": "canary", "next": {"action": "OpenWindow", "at": "2026-03-02T08:00:00Z"},
		"blocking": [{"reason": "Window", "message": "No window is open, so no update starts."}], "waves": [{"name": "canary", "nodes": 2, "updated": 2, "available": 2, "phase": "Passed"}]`)
	b.Does("a browser in Tokyo", log.Enable(), emulation.SetTimezoneOverride("Asia/Tokyo"), chromedp.Navigate(address), chrome.Press(chrome.Find("table.sets a")),
		chrome.Until(shows("main", "Windows: every day at 08:00 for 8h (UTC); every day at 22:00 for 1h (Europe/Berlin)")),
		chrome.Until(shows("main", "Freezes: 2026-12-19 23:00:00 UTC to 2027-01-02 00:00:00 UTC")),
		chrome.Until(shows(".next", "Next: a window opens in ")), chrome.Until(shows(".next", "(2026-03-02T08:00:00Z)")), chrome.Until(shows(".blocking", "Nothing starts: No window is open")))
	b.Does("a node that is not ready", chrome.Until(`/; the node is not ready since [-0-9]* ?\d\d:\d\d:\d\d UTC/.test(document.querySelector(".cell[data-node=node-3]")?.getAttribute("aria-label"))`))
	b.accessible("windows and freezes")
	b.Quiet()
}
