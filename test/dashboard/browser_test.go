// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	_ "embed" // for axe
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/chrome"
	"everynode.dev/everynode/test/harness"
)

// pictures is where TestSmokeBrowser writes screenshots: go test ./dashboard -run TestSmokeBrowser -pictures "$PWD/../docs/images"
var pictures = flag.String("pictures", "", "the directory where screenshots are written; none without it")

// axe is the script of axe-core, with which pages are checked: axe.min.js of its npm package 4.14.1, unchanged, next to its licences. The page does not contain it.
//
//go:embed testdata/axe/axe.min.js
var axe string

// hostile is a message that is harmful as markup.
const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`

// browser is a browser, and how it checks the pages of a dashboard.
type browser struct {
	*chrome.Browser
	t testing.TB
}

func browse(t testing.TB, more ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	return &browser{chrome.Start(t, "dashboard", more...), t}
}

// picture writes a screenshot of a page, as high as in a window of that height, if screenshots are wanted.
func (b *browser) picture(name string, height int64) {
	b.t.Helper()
	b.Picture(*pictures, name, height)
}

// violations are what axe-core finds wrong with a page: its rule, and where.
const violations = `axe.run().then((r) => r.passes.length === 0 ? ["nothing was checked"] : r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.target.join(" ")).slice(0, 3).join(", ")))`

// accessible checks a page with axe-core, in both of its colour schemes.
func (b *browser) accessible(page string) {
	b.t.Helper()
	await := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	b.Does("loading axe", chromedp.Evaluate(axe+"; null", nil))
	for _, scheme := range []string{"dark", "light"} {
		var found []string
		colours := emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})
		b.Does("axe", colours, chrome.Until(fmt.Sprintf("matchMedia('(prefers-color-scheme: %s)').matches", scheme)), chromedp.Evaluate(violations, &found, await))
		for _, one := range found {
			b.t.Errorf("%s, %s: %s", page, scheme, one)
		}
	}
}

// TestSmokeBrowser opens each page while a rollout is stuck, looks why, shows a plan, and changes an image by the page. Nothing of what the cluster says
// becomes markup, and the browser complains about nothing.
func TestSmokeBrowser(t *testing.T) {
	b := browse(t)
	s := shared.Cluster(t).Space(t, pictured)
	made := s.Run(set, harness.WithBudget("10%", "0"))
	for i, node := range s.Nodes {
		s.LabelNode(node, corev1.LabelTopologyZone, []string{"zone-a", "zone-b", "zone-c"}[i%3])
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: s.Name, Name: "hostile"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: s.Name, Name: set, UID: made.UID},
		Type:           corev1.EventTypeWarning, Reason: "Hostile", Message: hostile, LastTimestamp: metav1.Now(),
	}
	if _, err := s.Cluster.Client.CoreV1().Events(s.Name).Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d := start(t, s)
	s.Update(set, harness.WithImage(harness.BrokenImage))

	b.Does("the list", log.Enable(), chromedp.Navigate(d.url), chromedp.WaitVisible(`table.sets a`),
		chrome.Until(`location.hash === "#/" && document.querySelector("table.sets").innerText.includes("6 nodes: the new pod is not available yet")`))
	b.picture("dashboard-sets", 400)
	b.accessible("the list")
	b.Does("the picture", chrome.Press(chrome.Find(`table.sets a`)), chromedp.WaitVisible(`[data-picture="buttons"]`),
		chrome.Until(chrome.Count(".cell.s")+" === 6 && "+chrome.Count(".cell.g2")+" === 54 && "+chrome.Count(".group")+" === 3"))
	b.Does("what rolls, and what happens next", chrome.Until(`document.querySelector(".next").innerText.startsWith("Next: the next of 54 nodes follows when fewer nodes are without an available pod; 6 nodes do not start (")`),
		chrome.Until(`["New revision", "`+harness.BrokenImage+`", "Old revision, 54 pods", "`+harness.Image+`"].every((text) => document.querySelector(".summary").innerText.includes(text))`))
	b.Does("why a node waits, by its name", chrome.Enter(".tools input[type=search]", s.Nodes[pictured-1]),
		chrome.Until(`document.querySelector(".found")?.innerText.startsWith("`+s.Nodes[pictured-1]+`: the pod is old; the update budget is used up")`), chrome.Enter(".tools input[type=search]", " "))
	b.Does("why a node waits", chrome.Press(chrome.Find(".cell.s")), chrome.Until(`(document.querySelector(".panel")?.innerText || "").includes("ImagePull")`),
		chrome.Until(`document.querySelector(".panel").innerText.includes("`+harness.BrokenImage+`")`), chrome.Until(`[...document.querySelectorAll(".panel td")].some((e) => e.innerText === "Ready")`),
		chrome.Until("!"+chrome.Named(".actions > button", "undo")+".disabled"), chrome.Until(shows(".panel [data-next]", "Next: nothing by itself: a user must correct why the pod does not start")))
	b.picture("dashboard-set", 1400)
	b.accessible("a set")
	b.Does("the rules", chrome.Press(chrome.Find(`.panel p:last-of-type button`)), chrome.Until(`document.querySelector(".panel").innerText.includes("kubectl everynode explain-node")`))
	b.Does("the messages of the cluster", chrome.Until(`document.body.innerText.includes("<img src=x onerror=")`))

	b.Does("a plan", chrome.Press(chrome.Find(".foresight summary")), chromedp.WaitVisible(".foresight input.wide"),
		chrome.Enter(".foresight input.wide", harness.Image2), chrome.Press(chrome.Find(".foresight button[type=submit]")),
		chromedp.WaitVisible(`[data-plan="shown"]`), chrome.Until(`document.querySelector("[data-plan]").innerText.includes("60 recreate")`), chrome.Until(`document.querySelector("ul.legend")?.innerText.trim() === "R recreate 60"`)) // and not those that are not in the picture
	b.Does("another image than the plan's", chrome.Enter(".foresight input.wide", harness.BrokenImage+"-2"),
		chrome.Until(chrome.Find("[data-plan] button.main")+`.disabled && document.querySelector("[data-plan]").innerText.includes("show it again")`),
		chrome.Enter(".foresight input.wide", harness.Image2), chrome.Until("!"+chrome.Find("[data-plan] button.main")+".disabled"))
	b.picture("dashboard-plan", 1200)
	b.accessible("a plan")
	if now := image(t, s); now != harness.BrokenImage {
		t.Errorf("a plan has changed the image to %s", now)
	}
	b.Does("the change", chrome.Press(chrome.Find(`[data-plan] button.main`)), chromedp.WaitVisible("dialog[open] pre"),
		chrome.Until(`document.querySelector("dialog h2").innerText === "Apply this plan to `+s.Name+`/daemonset/`+set+`?"`),
		chrome.Until(`document.querySelector("dialog").innerText.includes("kubectl everynode apply -n `+s.Name+onPlane+` --plan=plan.json")`),
		chrome.Press(chrome.Find("dialog button.main")), chrome.Press(chrome.Named("dialog .buttons button", "Close")))
	s.Wait("the image is changed", func(harness.View) error {
		if now := image(t, s); now != harness.Image2 {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
	b.Does("the rollout, to its end", chrome.Until(chrome.Count(".cell.g1")+" === 60"), chrome.Until(`document.querySelector("[data-applied='as planned']")?.innerText.includes("60 of 60 nodes")`))
	b.Does("a node", chrome.Press(chrome.Find(".panel h3 a")), chrome.Until(`document.querySelector("h2")?.innerText === "Sets on this node" && document.body.innerText.includes("up-to-date")`))

	b.accessible("a node")
	var hacked bool
	b.Does("what was run", chromedp.Evaluate(`"hacked" in window || document.querySelectorAll("#app img, #app script").length > 0`, &hacked))
	if hacked {
		t.Error("a message of the cluster became markup")
	}
	b.Quiet()
}

func image(t *testing.T, s *harness.Space) string {
	t.Helper()
	now, err := s.Cluster.Client.AppsV1().DaemonSets(s.Name).Get(t.Context(), set, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return now.Spec.Template.Spec.Containers[0].Image
}

// TestApproval approves a wave by the page: nothing of the next wave starts before that, and the rest follows.
func TestApproval(t *testing.T) {
	b := browse(t)
	s := shared.Cluster(t).Space(t, nodes)
	s.Run(set, harness.WithBudget("100%", "0"))
	defer s.Apply(fmt.Sprintf(`{"apiVersion": "everynode.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "waves", "namespace": %q}, "spec": {
		"targets": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": %q}],
		"waves": [{"name": "canary", "nodes": {"count": 2}, "after": [{"type": "Approval"}]}, {"name": "rest", "nodes": {"percent": 100}}]}}`, s.Name, set))()
	d := start(t, s)
	b.Does("the set at rest", firstSet(d.url), chrome.Until(chrome.Count(".cell.g1")+" === 6"),
		chrome.Until(`document.body.innerText.includes("Waves of rolloutpolicy/waves")`))
	s.Update(set, harness.WithImage(harness.Image2))
	b.Does("the canary, which waits", chrome.Until(`document.querySelector(".waves")?.innerText.includes("needs an approval, waits")`), chrome.Until(chrome.Count(".cell.g1")+" === 2"),
		chrome.Until(`document.querySelector(".summary").innerText.includes("kubectl everynode approve daemonset/`+set+`")`))
	b.Does("the waves", chromedp.SetValue(".tools select", "wave"), chromedp.Evaluate(`document.querySelector(".tools select").dispatchEvent(new Event("change", {bubbles: true}))`, nil),
		chrome.Until(`[...document.querySelectorAll(".group h3")].map((h) => h.innerText).join() === "canary 2,rest 4"`),
		chrome.Until(`!document.querySelector(".waves").innerText.includes("remaining")`)) // no node remains
	b.Does("when the rest follows", chrome.Press(chrome.Named("section button", "Estimate the times")),
		chrome.Until(`[...document.querySelectorAll("[data-estimate]")].map((e) => e.innerText).join().startsWith("estimate: after the approval of canary, for about ")`))
	b.picture("dashboard-waves", 1100)
	b.accessible("waves")
	b.Does("the approval", chrome.Press(chrome.Named(".actions > button", "approve")), chromedp.WaitVisible("dialog[open] pre"),
		chrome.Enter("dialog input", "it's fine"), chrome.Press(chrome.Find("dialog button.main")),
		chrome.Press(chrome.Named("dialog .buttons button", "Close")))
	b.Does("the rest", chrome.Until(chrome.Count(".cell.g1")+" === 6"), chrome.Until(`document.querySelector(".waves").innerText.includes("approved by")`))
	if out := s.Kubectl("get", "rolloutapprovals.everynode.dev", "-o", "jsonpath={.items[*].spec}"); !strings.Contains(out, `"reason":"it's fine"`) || !strings.Contains(out, `"wave":"canary"`) {
		t.Errorf("the approvals are %s", out)
	}
	b.Quiet()
}
