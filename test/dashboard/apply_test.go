// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	downloads "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/chrome"
	"everynode.dev/everynode/test/harness"
)

// advancedSet is an Advanced DaemonSet, two nodes of which may be without a pod at a time.
func advancedSet(s *harness.Space) string {
	return fmt.Sprintf(`{"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "metadata": {"name": %[1]q, "namespace": %[2]q}, "spec": {
		"selector": {"matchLabels": {"app": %[1]q}}, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}},
		"template": {"metadata": {"labels": {"app": %[1]q}}, "spec": {
			"nodeSelector": {%[3]q: %[2]q}, "terminationGracePeriodSeconds": 1, "containers": [{"name": "agent", "image": %[4]q}]}}}}`, set, s.Name, harness.PoolLabel, harness.Image)
}

// onePolicy is a rollout policy for that set.
func onePolicy(s *harness.Space) string {
	return fmt.Sprintf(`{"apiVersion": "everynode.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "waves", "namespace": %q}, "spec": {
		"targets": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "name": %q}], "waves": [{"name": "all", "nodes": {"percent": 100}}]}}`, s.Name, set)
}

// refused tries to apply the plan that is shown, is refused for a reason, and shows the new plan.
func (b *browser) refused(reason, counts string) {
	b.t.Helper()
	const answers = `performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/api/verb")).length`
	before := 0
	b.Does("a plan that does not hold: "+reason, chrome.Press(chrome.Find("[data-plan] button.main")), chromedp.WaitVisible("dialog [data-stale]"),
		chrome.Until(fmt.Sprintf("document.querySelector('dialog [data-stale]').innerText.includes(%q)", reason)),
		chrome.Until(`!document.querySelector("dialog").innerText.includes("was edited")`),
		chromedp.Evaluate(answers, &before), chrome.Press(chrome.Named("dialog .buttons button", "Show the new plan")))
	b.Does("the new plan", chrome.Until(fmt.Sprintf(`%s > %d && !document.querySelector(".foresight button[type=submit]").disabled`, answers, before)),
		chrome.Until(fmt.Sprintf(`!document.querySelector("dialog") && document.querySelector("[data-plan]").innerText.includes(%q)`, counts)))
}

// images are the images of the pods of the space, by node.
func images(t *testing.T, s *harness.Space) map[string]string {
	t.Helper()
	pods, err := s.Cluster.Client.CoreV1().Pods(s.Name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			all[pods.Items[i].Spec.NodeName] = pods.Items[i].Spec.Containers[0].Image
		}
	}
	return all
}

// ready is met when that many pods of the space exist, and all are ready.
func ready(t *testing.T, s *harness.Space, count int) error {
	t.Helper()
	pods, err := s.Cluster.Client.CoreV1().Pods(s.Name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.DeletionTimestamp != nil || !harness.Ready(p) {
			return fmt.Errorf("%s is not ready", p.Name)
		}
	}
	if len(pods.Items) != count {
		return fmt.Errorf("there are %d pods, and not %d", len(pods.Items), count)
	}
	return nil
}

// TestApplyThePlan plays a plan over the picture and applies it, and what comes out on each node is the plan. Before that the node list, the policy and the set are
// changed in turn: each time nothing is changed, the page says why, and shows the new plan.
func TestApplyThePlan(t *testing.T) {
	b := browse(t)
	s := shared.Cluster(t).Space(t, nodes)
	s.Apply(advancedSet(s))
	d := start(t, s)
	b.Does("the set at rest", firstSet(d.url), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	b.Does("a plan", chrome.Press(chrome.Find(".foresight summary")), chromedp.WaitVisible(".foresight input.wide"),
		chrome.Enter(".foresight input.wide", harness.Image2), chrome.Enter(".foresight input:not(.wide)", "2"), chrome.Press(chrome.Find(".foresight button[type=submit]")),
		chrome.Until(`(document.querySelector("[data-plan]")?.innerText || "").includes("4 recreate, 2 wait")`))

	s.Taint(s.Nodes[0], corev1.Taint{Key: "dashboard-test", Effect: corev1.TaintEffectNoExecute})
	running := func(pods int) { s.Poll("the pods run", func() error { return ready(t, s, pods) }) }
	running(nodes - 1)
	b.refused("and leave now (not-wanted)", "3 recreate, 2 wait")
	s.Untaint(s.Nodes[0], "dashboard-test")
	running(nodes)
	b.refused("leave in the plan, and ", "4 recreate, 2 wait")
	defer s.Apply(onePolicy(s))()
	b.refused("rolloutpolicy/waves applies to the set now, and did not", "wave all: 6 nodes")
	s.Kubectl("patch", "rolloutpolicies.everynode.dev", "waves", "--type=merge", "-p", `{"spec": {"waves": [{"name": "every", "nodes": {"percent": 100}}]}}`)
	b.refused("rolloutpolicy/waves has been changed (generation 2, not 1)", "wave every: 6 nodes")
	s.Kubectl("patch", "daemonsets.apps.kruise.io", set, "--type=merge", "-p", `{"spec": {"minReadySeconds": 1}}`)
	b.refused("has been changed (generation", "4 recreate, 2 wait")
	running(nodes)
	for node, image := range images(t, s) {
		if image != harness.Image {
			t.Errorf("%s has %s, and nothing was applied", node, image)
		}
	}

	planned, saved := map[string]string{}, t.TempDir()
	b.Does("the verdicts of the plan", chromedp.Evaluate(`Object.fromEntries([...document.querySelectorAll(".cell")].map((c) => [c.dataset.node, c.getAttribute("aria-label").split(": ")[1]]))`, &planned))
	b.Does("the plan, played", chrome.Press(chrome.Named(".player button", "Play")), chrome.Until(chrome.Count(".cell.g5")+" === 2"), chrome.Until(chrome.Count(".cell.g1")+" === 4 && "+chrome.Named(".player button", "Play")+" !== undefined"))
	b.Does("the plan, applied", chrome.Press(chrome.Find("[data-plan] button.main")), chromedp.WaitVisible("dialog[open] pre"),
		chrome.Until(`document.querySelector("dialog pre").innerText.includes("the plan for `+s.Name+`/ads/`+set+` is still valid; nothing has been changed")`),
		chrome.Until(`document.querySelector("dialog h2").innerText === "Apply this plan to `+s.Name+`/ads/`+set+`?"`),
		chrome.Until(`document.querySelector("dialog .line code").innerText === "kubectl everynode apply -n `+s.Name+onPlane+` --plan=plan.json"`))
	b.Does("the plan, saved", downloads.SetDownloadBehavior(downloads.SetDownloadBehaviorBehaviorAllow).WithDownloadPath(saved), chrome.Press(chrome.Named("dialog .line button", "Save plan.json")))
	s.Poll("the command of the dialog accepts the saved plan", func() error {
		out, err := s.Plugin("apply", "--plan="+filepath.Join(saved, "plan.json"), "--dry-run")
		if err == nil && !strings.Contains(out, "is still valid") {
			err = fmt.Errorf("it says %s", out)
		}
		return err
	})
	b.Does("the change", chrome.Press(chrome.Find("dialog button.main")), chrome.Until(`document.querySelector("dialog pre").innerText.includes("was edited")`), chrome.Press(chrome.Named("dialog .buttons button", "Close")))
	b.Does("the outcome", chrome.Until(`(document.querySelector("[data-applied='as planned']")?.innerText || "").includes("4 of 4 nodes have come out as planned. The outcome is the plan.")`))
	b.accessible("an applied plan")
	s.Poll("each node has the image that the plan gave it", func() error { return asPlanned(planned, images(t, s)) })
	b.Quiet()
}

// asPlanned compares the verdicts of a plan with the images of pods.
func asPlanned(planned, now map[string]string) error {
	var wrong []string
	recreated := 0
	for node, verdict := range planned {
		want := harness.Image
		if verdict, _, _ = strings.Cut(verdict, ","); verdict == "recreate" {
			want = harness.Image2
			recreated++
		}
		if now[node] != want {
			wrong = append(wrong, fmt.Sprintf("%s: %s in the plan, and has %q", node, verdict, now[node]))
		}
	}
	if len(wrong) > 0 || recreated != 4 || len(planned) != nodes {
		return fmt.Errorf("%d of %d nodes are to be recreated: %s", recreated, len(planned), strings.Join(wrong, "; "))
	}
	return nil
}
