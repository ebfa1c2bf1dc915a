// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	_ "embed" // for axe
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// browser is a headless Chromium with one window, and what it has complained about.
type browser struct {
	t   testing.TB
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

// browse starts the browser, or skips the test where there is none.
func browse(t testing.TB, more ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		t.Skip("SKIPPED: the page needs a browser, and there is no Chromium: install it, on Debian with apt-get install chromium, and run make test SUITE=dashboard")
	}
	how := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.WindowSize(1280, 900))
	if os.Geteuid() == 0 {
		how = append(how, chromedp.NoSandbox) // Chromium's sandbox does not run as root
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(how, more...)...)
	t.Cleanup(cancel)
	b := &browser{t: t}
	// What it does not know of newer browsers is no news.
	b.ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(cancel)
	chromedp.ListenTarget(b.ctx, b.listen)
	if err := chromedp.Run(b.ctx); err != nil { // it lives as long as the context of this call
		t.Fatalf("starting %s: %v", program, err)
	}
	return b
}

func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			b.complaints = append(b.complaints, fmt.Sprintf("console: %s", e.Args[0].Value))
		}
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		b.complaints = append(b.complaints, e.Entry.Text)
	}
}

// quiet checks that the browser has complained about nothing.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		b.t.Errorf("the browser complains: %s", strings.Join(b.complaints, "; "))
	}
}

// does plays steps, each of which waits until it is possible.
func (b *browser) does(what string, steps ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, harness.Patience)
	defer cancel()
	if err := chromedp.Run(ctx, steps...); err != nil {
		shown := ""
		_ = chromedp.Run(b.ctx, chromedp.Text("body", &shown))      // for the message only
		b.t.Fatalf("the page shows:\n%s\n%s: %v", shown, what, err) // the page is long: what failed is at the end
	}
}

// until waits until an expression of JavaScript is true. What is waited for is named if it is not.
func until(expression string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		err := chromedp.Poll(expression, nil, chromedp.WithPollingInterval(100*time.Millisecond), chromedp.WithPollingTimeout(harness.Patience)).Do(ctx)
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", expression, err)
		}
		return nil
	})
}

// press waits until an element is there and enabled, and clicks it. A click of the mouse goes to a place: while the page grows above the element, it misses.
func press(element string) chromedp.Action {
	return until(`((e) => !!e && !e.disabled && (e.click(), true))(` + element + `)`)
}

// find is an expression for the first element of a selector.
func find(selector string) string { return fmt.Sprintf("document.querySelector(%q)", selector) }

// named is an expression for the button with a text, of those of a selector.
func named(selector, text string) string {
	return fmt.Sprintf("[...document.querySelectorAll(%q)].find((b) => b.innerText === %q)", selector, text)
}

// enter replaces the text of an input, and the page gets the same events as when a user types.
func enter(selector, text string) chromedp.Action {
	return until(fmt.Sprintf(`((e) => !!e && (e.focus(), e.select(), document.execCommand("insertText", false, %q), e.value === %[1]q))(%s)`, text, find(selector)))
}

// picture writes a screenshot, if they are wanted.
func (b *browser) picture(name string) {
	b.t.Helper()
	if *pictures == "" {
		return
	}
	var data []byte
	b.does("a screenshot", chromedp.CaptureScreenshot(&data))
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// violations are what axe-core finds wrong with a page: its rule, and where.
const violations = `axe.run().then((r) => r.passes.length === 0 ? ["nothing was checked"] : r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.target.join(" ")).slice(0, 3).join(", ")))`

// accessible checks a page with axe-core, in both of its colour schemes.
func (b *browser) accessible(page string) {
	b.t.Helper()
	await := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	b.does("loading axe", chromedp.Evaluate(axe+"; null", nil))
	for _, scheme := range []string{"dark", "light"} {
		var found []string
		colours := emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})
		b.does("axe", colours, until(fmt.Sprintf("matchMedia('(prefers-color-scheme: %s)').matches", scheme)), chromedp.Evaluate(violations, &found, await))
		for _, one := range found {
			b.t.Errorf("%s, %s: %s", page, scheme, one)
		}
	}
}

// count is an expression for the number of cells of a group that are shown.
func count(selector string) string {
	return fmt.Sprintf("document.querySelectorAll(%q).length", selector)
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

	b.does("the list", log.Enable(), chromedp.Navigate(d.url), chromedp.WaitVisible(`table.sets a`),
		until(`location.hash === "#/" && document.querySelector("table.sets").innerText.includes("wait-available 6")`))
	b.picture("dashboard-sets")
	b.accessible("the list")
	b.does("the picture", press(find(`table.sets a`)), chromedp.WaitVisible(`[data-picture="buttons"]`),
		until(count(".cell.g3")+" === 6 && "+count(".cell.g2")+" === 54 && "+count(".group")+" === 3"))
	b.does("why a node waits", press(find(".cell.g3")), until(`(document.querySelector(".panel")?.innerText || "").includes("ImagePull")`),
		until(`document.querySelector(".panel").innerText.includes("`+harness.BrokenImage+`")`))
	b.picture("dashboard-set")
	b.accessible("a set")
	b.does("the rules", press(find(`.panel p:last-of-type button`)), until(`document.querySelector(".panel").innerText.includes("kubectl everynode explain-node")`))
	b.does("the messages of the cluster", until(`document.body.innerText.includes("<img src=x onerror=")`))

	b.does("a plan", press(find(".foresight summary")), chromedp.WaitVisible(".foresight input.wide"),
		enter(".foresight input.wide", harness.Image2), press(find(".foresight button[type=submit]")),
		chromedp.WaitVisible(`[data-plan="shown"]`), until(`document.querySelector("[data-plan]").innerText.includes("60 recreate")`))
	b.does("another image than the plan's", enter(".foresight input.wide", harness.BrokenImage+"-2"),
		until(find("[data-plan] button.main")+`.disabled && document.querySelector("[data-plan]").innerText.includes("show it again")`),
		enter(".foresight input.wide", harness.Image2), until("!"+find("[data-plan] button.main")+".disabled"))
	b.picture("dashboard-plan")
	b.accessible("a plan")
	if now := image(t, s); now != harness.BrokenImage {
		t.Errorf("a plan has changed the image to %s", now)
	}
	b.does("the change", press(find(`[data-plan] button.main`)), chromedp.WaitVisible("dialog[open] pre"),
		until(`document.querySelector("dialog h2").innerText === "Apply this plan to `+s.Name+`/daemonset/`+set+`?"`),
		until(`document.querySelector("dialog").innerText.includes("kubectl everynode apply -n `+s.Name+` --plan=plan.json")`),
		press(find("dialog button.main")), press(named("dialog .buttons button", "Close")))
	s.Wait("the image is changed", func(harness.View) error {
		if now := image(t, s); now != harness.Image2 {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
	b.does("the rollout, to its end", until(count(".cell.g1")+" === 60"), until(`document.querySelector("[data-applied='as planned']")?.innerText.includes("60 of 60 nodes")`))
	b.does("a node", press(find(".panel h3 a")), until(`document.querySelector("h2")?.innerText === "Sets on this node" && document.body.innerText.includes("up-to-date")`))

	b.accessible("a node")
	var hacked bool
	b.does("what was run", chromedp.Evaluate(`"hacked" in window || document.querySelectorAll("#app img, #app script").length > 0`, &hacked))
	if hacked {
		t.Error("a message of the cluster became markup")
	}
	b.quiet()
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
	b.does("the set at rest", log.Enable(), chromedp.Navigate(d.url), press(find(`table.sets a`)), until(count(".cell.g1")+" === 6"),
		until(`document.body.innerText.includes("Waves of rolloutpolicy/waves")`))
	s.Update(set, harness.WithImage(harness.Image2))
	b.does("the canary, which waits", until(`document.querySelector(".waves")?.innerText.includes("needs an approval, waits")`), until(count(".cell.g1")+" === 2"),
		until(`document.querySelector(".summary").innerText.includes("kubectl everynode approve daemonset/`+set+`")`))
	b.does("the waves", chromedp.SetValue(".tools select", "wave"), chromedp.Evaluate(`document.querySelector(".tools select").dispatchEvent(new Event("change", {bubbles: true}))`, nil),
		until(`[...document.querySelectorAll(".group h3")].map((h) => h.innerText).join() === "canary 2,rest 4"`))
	b.picture("dashboard-waves")
	b.accessible("waves")
	b.does("the approval", press(named(".actions > button", "approve")), chromedp.WaitVisible("dialog[open] pre"),
		enter("dialog input", "it's fine"), press(find("dialog button.main")),
		press(named("dialog .buttons button", "Close")))
	b.does("the rest", until(count(".cell.g1")+" === 6"), until(`document.querySelector(".waves").innerText.includes("approved by")`))
	if out := s.Kubectl("get", "rolloutapprovals.everynode.dev", "-o", "jsonpath={.items[*].spec}"); !strings.Contains(out, `"reason":"it's fine"`) || !strings.Contains(out, `"wave":"canary"`) {
		t.Errorf("the approvals are %s", out)
	}
	b.quiet()
}
