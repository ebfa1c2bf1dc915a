// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// imagineWith serves an imaginary cluster with a set whose containers have these names.
func imagineWith(t *testing.T, containers ...string) string {
	t.Helper()
	r := fakecluster.Roll{Name: set, Advanced: true, Letters: "uuu"}
	template, all := r.Template(""), []any{}
	for _, name := range containers {
		all = append(all, map[string]any{"name": name, "image": "registry.example/" + name + ":2"})
	}
	template["spec"] = map[string]any{"containers": all}
	r.Spec = map[string]any{"template": template}
	cluster := fakecluster.New(t, r.Objects(t)...)
	return served(t, cluster)
}

// TestAContainerWithTheNameOfAProperty: the form has its image.
func TestAContainerWithTheNameOfAProperty(t *testing.T) {
	b := browse(t)
	address := imagineWith(t, "constructor")
	b.Does("the form", firstSet(address), chrome.Press(chrome.Find(".foresight summary")),
		chrome.Until(chrome.Find(".foresight input.wide")+`?.value === "registry.example/constructor:2"`),
		chrome.Enter(".foresight input.wide", "registry.example/constructor:3"), chromedp.Evaluate(answering, nil), chrome.Press(chrome.Find(".foresight button[type=submit]")),
		chrome.Until(`sent[0]?.flags.image === "constructor=registry.example/constructor:3"`))
	b.Quiet()
}

// TestAPlanForTwoImages: a plan is for all images that were changed.
func TestAPlanForTwoImages(t *testing.T) {
	b := browse(t)
	address := imagineWith(t, "agent", "sidecar")
	b.Does("the form", firstSet(address), chrome.Press(chrome.Find(".foresight summary")), chromedp.Evaluate(answering, nil),
		chrome.Enter(".foresight label:nth-of-type(1) input", "registry.example/agent:3"), chrome.Enter(".foresight label:nth-of-type(2) input", "registry.example/sidecar:3"),
		chrome.Press(chrome.Find(".foresight button[type=submit]")), chrome.Until(`sent[0]?.flags.image === "agent=registry.example/agent:3\nsidecar=registry.example/sidecar:3"`))
	b.Quiet()
}

// TestVerdictsWhileAPlanIsPlayed: the plan plays no further when the user shows its verdicts, or another plan.
func TestVerdictsWhileAPlanIsPlayed(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuuuuu", set)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	b.foresees("")
	says := chrome.Find(".player input") + `.getAttribute("aria-valuetext")`
	for what, button := range map[string]string{"the verdicts": chrome.Named(".player button", "Verdicts"), "a new plan": chrome.Find(".foresight button[type=submit]")} {
		var now string
		b.Does(what, chrome.Press(chrome.Named(".player button", "Play")), chrome.Until(chrome.Count(".cell.g5")+" === 2 && "+says+`.startsWith("after ")`),
			chrome.Press(button), chrome.Until(says+` === "the verdicts"`), chromedp.Sleep(time.Second/2), chromedp.Evaluate(says, &now), chrome.Until(chrome.Named(".player button", "Play")))
		if now != "the verdicts" {
			t.Errorf("%s: the page shows the time %q", what, now)
		}
	}
	b.Quiet()
}

// TestTimesOfHours: minutes are rounded before they are hours.
func TestTimesOfHours(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuu", set)
	created := fakecluster.Now().Add(-24 * time.Hour) // of the new revision
	b.Does("a revision", log.Enable(), chromedp.Navigate(address), chromedp.Evaluate(fmt.Sprintf("Date.now = () => %d; null", created.Add(7185*time.Second).UnixMilli()), nil),
		chrome.Press(chrome.Find("table.sets a")),
		chrome.Until(`[...document.querySelectorAll("td")].some((e) => e.innerText === "2h0m ago")`))
	b.Quiet()
}

// TestLabelsWithTheNamesOfOtherGroups: nodes can be grouped by a label that is named as another group is.
func TestLabelsWithTheNamesOfOtherGroups(t *testing.T) {
	b := browse(t)
	r := fakecluster.Roll{Name: set, Advanced: true, Letters: "uuu"}
	objects := r.Objects(t)
	for _, o := range objects {
		if node, is := o.(*corev1.Node); is {
			node.Labels["verdict"], node.Labels["revision"] = "green", "blue"
		}
	}
	cluster := fakecluster.New(t, objects...)
	address := served(t, cluster)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell")+" === 3"))
	for label, value := range map[string]string{"verdict": "green", "revision": "blue"} {
		b.Does("groups by the label "+label, chromedp.Evaluate(fmt.Sprintf(`((s) => { s.selectedIndex = [...s.options].findLastIndex((o) => o.text === %q); s.dispatchEvent(new Event("change", {bubbles: true})); })(%s)`,
			label, chrome.Find(".tools select")), nil), chrome.Until(shows(".group h3", value)))
	}
	b.accessible("groups by a label")
	b.Quiet()
}

// TestACellThatIsGone: the Enter key chooses the last cell if the one under the pointer is gone.
func TestACellThatIsGone(t *testing.T) {
	b := browse(t)
	const before, after = 2120, 2010
	cluster, address := imagine(t, strings.Repeat("u", before), set)
	b.Does("the last row", firstSet(address), chromedp.WaitVisible("[data-picture=canvas]"), chrome.Until(shows(".tools [role=status]", fmt.Sprint(before))),
		chrome.Until(`((c) => { const area = c.getBoundingClientRect();
			c.dispatchEvent(new MouseEvent("mousemove", {bubbles: true, clientX: area.left + 5, clientY: area.bottom - 14}));
			return document.querySelector("#cell-says").innerText.startsWith("node-2"); })(`+chrome.Find("canvas")+`)`))
	for i := before; i > after; i-- {
		node := fmt.Sprintf("node-%d", i)
		err := cluster.Kubernetes.CoreV1().Pods("default").Delete(t.Context(), set+"-"+node+"-"+fakecluster.NewHash[:3], metav1.DeleteOptions{})
		if err == nil {
			err = cluster.Kubernetes.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		if i%40 == 1 { // a watch of an imaginary cluster holds 100 events
			b.Does("nodes that are gone", chrome.Until(shows(".tools [role=status]", fmt.Sprint(i-1))))
		}
	}
	b.Does("its end", chrome.Until(shows(".tools [role=status]", fmt.Sprint(after))), chromedp.Evaluate(chrome.Find("canvas")+`.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}))`, nil),
		chrome.Until(shows(".panel h3", fmt.Sprintf("node-%d", after))))
	b.Quiet()
}

// TestPodsOfTwoNamespaces: pods with the same name on one node differ by their namespaces.
func TestPodsOfTwoNamespaces(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "u", set)
	pod, err := cluster.Kubernetes.CoreV1().Pods("default").Get(t.Context(), set+"-node-1-"+fakecluster.NewHash[:3], metav1.GetOptions{})
	if err == nil {
		pod = pod.DeepCopy()
		pod.Namespace, pod.UID = "other", "other"
		_, err = cluster.Kubernetes.CoreV1().Pods("other").Create(t.Context(), pod, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	b.Does("a node", firstSet(address), chrome.Press(chrome.Find(".cell")), chrome.Press(chrome.Find(".panel h3 a")),
		chrome.Until(`["default", "other"].every((of) => [...document.querySelectorAll("td")].some((e) => e.innerText === of + "/`+pod.Name+`"))`))
	b.Quiet()
}

// TestAWaveThatIsNotReported: while the status of a policy does not have a wave that was put before the others, its nodes are shown in it, and not in the next one.
func TestAWaveThatIsNotReported(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "ooo", set)
	governed(t, cluster, `{"name": "pilot", "nodes": {"count": 1}, "soak": "1h"}, {"name": "canary", "nodes": {"count": 1}, "soak": "1h"}`, `"phase": "Rolling", "wave": "canary", "waves": [
		{"name": "canary", "nodes": 1, "updated": 0, "available": 0, "phase": "Rolling"}, {"name": "remaining", "nodes": 2, "updated": 0, "available": 0, "phase": "Pending"}]`)
	b.Does("the waves", firstSet(address), chrome.Until(shows("main", "Waves of rolloutpolicy/waves")), chromedp.SetValue(".tools select", "wave"),
		chromedp.Evaluate(`document.querySelector(".tools select").dispatchEvent(new Event("change", {bubbles: true}))`, nil),
		chrome.Until(`[...document.querySelectorAll(".group h3")].map((e) => e.innerText).join() === "pilot 1,canary 1,remaining 1"`))
	for i, says := range []string{"Wave: pilot.", "Wave: canary, which is Rolling: 0 of 1 nodes updated and available.", "Wave: remaining, which is Pending: 0 of 2 nodes updated and available."} {
		b.Does(says, chrome.Press(fmt.Sprintf(`document.querySelectorAll(".group .cell")[%d]`, i)), chrome.Until(shows(".panel", says)))
	}
	b.Quiet()
}

// TestABadValueAfterAPlan: the form of a plan stays open, and shows why there is no other plan. It closes only when the user closes it.
func TestABadValueAfterAPlan(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuuuuu", set)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	b.foresees("")
	b.Does("a bad partition", chrome.Enter(".foresight input:not(.wide)", "xx"), chrome.Press(chrome.Find(".foresight button[type=submit]")),
		chrome.Until(chrome.Find(".foresight [role=alert]")+`?.checkVisibility() && `+shows(".foresight [role=alert]", "xx")), chrome.Until(chrome.Count("[data-plan]")+" === 0"))
	b.Does("a good one", chrome.Enter(".foresight input:not(.wide)", "2"), chrome.Press(chrome.Find(".foresight button[type=submit]")), chrome.Until(shows("[data-plan]", "This is a plan")),
		chrome.Press(chrome.Named(".foresight button", "Back to now")), chrome.Until(chrome.Count("[data-plan]")+" === 0 && "+chrome.Find(".foresight button[type=submit]")+".checkVisibility()"))
	b.Quiet()
}
