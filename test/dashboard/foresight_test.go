// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// inWaves is a rollout policy for the imaginary set, with these waves, as one types it.
func inWaves(waves string) string {
	return fmt.Sprintf(`{"apiVersion": "everynode.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "waves", "namespace": "default"}, "spec": {`+
		`"targets": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "name": %q}], "waves": [%s]}}`, set, waves)
}

// foresees shows the plan for another image, under another policy if one is given.
func (b *browser) foresees(policy string) {
	b.t.Helper()
	b.Does("the form", chrome.Press(chrome.Find(".foresight summary")), chrome.Enter(".foresight input.wide", "registry.example/agent:3"))
	if policy != "" {
		b.Does("the policy", chrome.Press(chrome.Find(".foresight input[type=checkbox]")), chrome.Enter(".foresight textarea", policy))
	}
	b.Does("the plan", chrome.Press(chrome.Find(".foresight button[type=submit]")), chrome.Until(shows("[data-plan]", "This is a plan")))
}

// shows is an expression for whether the first element of a selector has a text.
func shows(selector, text string) string {
	return fmt.Sprintf("(document.querySelector(%q)?.innerText || '').includes(%q)", selector, text)
}

// labelled is an expression for whether the cell of a node says a text.
func labelled(node, text string) string {
	return fmt.Sprintf("(document.querySelector(%q)?.getAttribute('aria-label') || '').includes(%q)", ".cell[data-node="+node+"]", text)
}

// TestTimesAfterAnApproval: it is not known when a person approves. So what a plan does after that has no time that counts from now: not the wave, not its nodes, and not the moment
// that is played.
func TestTimesAfterAnApproval(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuuuuu", set)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	b.foresees(inWaves(`{"name": "canary", "nodes": {"count": 2}, "soak": "10m", "after": [{"type": "Approval"}]}, {"name": "rest", "nodes": {"percent": 100}}`))
	b.Does("the waves", chrome.Until(shows("[data-plan]", "wave canary: 2 nodes, starts at once, ends after 1")), chrome.Until(shows("[data-plan]", "then needs an approval")),
		chrome.Until(shows("[data-plan]", "wave rest: 4 nodes, starts after the approval of canary, ends ")), chrome.Until(shows("[data-plan]", " and the time until approvals, at most 2 nodes at once")))
	var texts, cells []string
	b.Does("what it says of waves and nodes", chromedp.Evaluate(`[...document.querySelectorAll("[data-plan] li")].map((e) => e.innerText)`, &texts),
		chromedp.Evaluate(`[...document.querySelectorAll(".cell")].map((c) => c.getAttribute("aria-label"))`, &cells))
	if len(texts) != 2 || !strings.HasSuffix(texts[1], " after the approval of canary") {
		t.Errorf("the waves are %q", texts)
	}
	ofRest := 0
	for _, cell := range cells {
		if strings.Contains(cell, "wave rest") {
			ofRest++
			if !strings.Contains(cell, "after the approval of canary, for about ") {
				t.Errorf("a node after the approval: %s", cell)
			}
		} else if !strings.Contains(cell, ", after 0s, for about ") || !strings.Contains(cell, ", wave canary") {
			t.Errorf("a node before the approval: %s", cell)
		}
	}
	if ofRest != 4 {
		t.Errorf("%d nodes are in the wave rest: %q", ofRest, cells)
	}
	at := func(part float64) chromedp.Action {
		return chromedp.Evaluate(fmt.Sprintf(`((e) => { e.value = %g * e.max; e.dispatchEvent(new Event("input", {bubbles: true})); })(%s)`, part, chrome.Find(".player input")), nil)
	}
	b.Does("played, before the approval", at(0.01), chrome.Until(chrome.Find(".player input")+`.getAttribute("aria-valuetext").startsWith("after ")`), chrome.Until(chrome.Count(".cell.g5")+" === 2"))
	b.Does("played, after the approval", at(0.999), chrome.Until(chrome.Find(".player input")+`.getAttribute("aria-valuetext").endsWith(" after the approval of canary")`))
	b.Quiet()
}

// TestWavesOfAPlan: the waves that a plan counts are those of the rollout policy; without one it counts batches of the size of the budget. The last soak ends after the last node.
func TestWavesOfAPlan(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuuuuu", set)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	b.foresees("")
	b.Does("batches", chrome.Until(shows("[data-plan]", ", 3 batches, at most 2 nodes at once")), chrome.Until(chrome.Count(".foresight li")+" === 0"))
	b.Does("the policy", chrome.Press(chrome.Find(".foresight input[type=checkbox]")), chrome.Enter(".foresight textarea", inWaves(`{"name": "all", "nodes": {"percent": 100}, "soak": "1h"}`)),
		chrome.Press(chrome.Find(".foresight button[type=submit]")), chrome.Until(shows("[data-plan]", "wave all: 6 nodes")), chrome.Until(shows("[data-plan]", " until all nodes are updated; with the last soak 1h")))
	b.Does("waves of the policy", chrome.Until("!"+shows("[data-plan]", "waves")), chrome.Until(labelled("node-1", "wave all")))
	b.Quiet()
}

// accepts lets every plan be applied: the imaginary cluster stores no edit.
const accepts = `window.fetch = ((send) => async (path, how) => String(path) === "api/apply" ? new Response(JSON.stringify({line: "kubectl", output: "edited"})) : send(path, how))(window.fetch.bind(window))`

// TestAPlanWithoutUpdates: when a plan that updates no node was applied, the page does not claim that its outcome has come out.
func TestAPlanWithoutUpdates(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuuuuu", set)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	b.Does("a plan", chrome.Press(chrome.Find(".foresight summary")), chrome.Enter(".foresight input:not(.wide)", "2"), chrome.Press(chrome.Find(".foresight button[type=submit]")),
		chrome.Until(shows("[data-plan]", "6 leave")))
	b.Does("applied", chromedp.Evaluate(accepts, nil), chrome.Press(chrome.Find("[data-plan] button.main")), chromedp.WaitVisible("dialog[open] pre"), chrome.Press(chrome.Find("dialog button.main")),
		chrome.Press(chrome.Named("dialog .buttons button", "Close")), chrome.Until(shows("[data-applied='no updates']", "The plan was applied. It updates and removes no pod")))
	var text string
	b.Does("what it says", chromedp.Text("[data-applied]", &text))
	if strings.Contains(text, "outcome") {
		t.Errorf("nothing was to come out, and it says: %s", text)
	}
	b.Quiet()
}

// TestANodeOfAPlan: in a plan the panel of a node is about the plan and not about now, and a legend says what the cells mean.
func TestANodeOfAPlan(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuuuun", set)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 5"))
	b.foresees(inWaves(`{"name": "canary", "nodes": {"count": 2}, "after": [{"type": "Approval"}]}, {"name": "rest", "nodes": {"percent": 100}}`))
	b.Does("the legend", chrome.Until(shows("ul.legend", "recreate 5")), chrome.Until(`[...document.querySelectorAll("ul.legend .mark.g5")].some((e) => e.innerText === "R")`))
	b.Does("a node", chrome.Press(`[...document.querySelectorAll(".cell")].find((c) => c.getAttribute("aria-label").includes("wave rest"))`),
		chrome.Until(shows(".panel h3", " in the plan")), chrome.Until(shows(".panel", "recreate: ")), chrome.Until(shows(".panel", "Wave: rest, 3 nodes, which starts after the approval of canary.")),
		chrome.Until(shows(".panel", " after the approval of canary, for about ")), chrome.Until("!"+shows(".panel", "up-to-date")))
	b.accessible("a node of a plan")
	b.Does("a moment of the plan", chromedp.Focus(".player input"), chromedp.KeyEvent(kb.Home), chrome.Until(shows(".panel", "later.")), chrome.Until(shows("ul.legend", "later ")))
	b.Does("now", chrome.Press(chrome.Named(".foresight button", "Back to now")), chrome.Until(shows(".panel", "up-to-date")), chrome.Until(chrome.Count("ul.legend")+" === 0"))
	b.Quiet()
}

// TestAPlanWithAWindow plays a plan whose policy has a window and an approval: nothing begins before the window opens, and then the waves follow each other.
func TestAPlanWithAWindow(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuuuuu", set)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	opens := fakecluster.Now().UTC().Add(2 * time.Hour)
	b.foresees(inWaves(fmt.Sprintf(`{"name": "canary", "nodes": {"count": 2}, "after": [{"type": "Approval"}]}, {"name": "rest", "nodes": {"percent": 100}}], "windows": [{"schedule": "%d %d * * *", "duration": "8h"}`,
		opens.Minute(), opens.Hour())))
	b.Does("the begin", chrome.Until(shows("[data-plan]", "wave canary: 2 nodes, starts after 2h0m0s")), chrome.Until(labelled("node-1", ", after 2h0m0s, for about ")))
	at := func(seconds float64) chromedp.Action {
		return chromedp.Evaluate(fmt.Sprintf(`((e) => { e.value = %g; e.dispatchEvent(new Event("input", {bubbles: true})); })(%s)`, seconds, chrome.Find(".player input")), nil)
	}
	b.Does("before the window", at(7100), chrome.Until(shows("ul.legend", "later 6")), chrome.Until(chrome.Count(".cell.g5")+" === 0"))
	b.Does("in the window", at(7201), chrome.Until(shows("ul.legend", "in progress 2")), chrome.Until(chrome.Count(".cell.g5")+" === 2"))
	b.Does("the end, by the keyboard", chromedp.Focus(".player input"), chromedp.KeyEvent(kb.End), chrome.Until(chrome.Count(".cell.g1")+" === 6"),
		chrome.Until(chrome.Find(".player input")+`.getAttribute("aria-valuetext").endsWith(" after the approval of canary")`))
	b.Quiet()
}

// TestTimesOfAllWavesAfterAnApproval: all waves that wait for the same approvals count from those approvals, not each from its own begin, and so does the clock of a plan that is played.
func TestTimesOfAllWavesAfterAnApproval(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuuuuu", set)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	b.foresees(inWaves(`{"name": "canary", "nodes": {"count": 2}, "after": [{"type": "Approval"}]}, {"name": "half", "nodes": {"count": 2}, "soak": "10m"}, {"name": "rest", "nodes": {"percent": 100}}`))
	b.Does("the waves", chrome.Until(`/wave half: 2 nodes, starts after the approval of canary, ends 1\dm after the approval of canary/.test(`+chrome.Find("[data-plan]")+`.innerText)`),
		chrome.Until(`/wave rest: 2 nodes, starts 1\dm after the approval of canary, ends 1\dm after the approval of canary/.test(`+chrome.Find("[data-plan]")+`.innerText)`))
	b.Does("a node of the last wave", chrome.Until(`[...document.querySelectorAll(".cell")].filter((c) => /, 1\dm after the approval of canary, for about .*wave rest/.test(c.ariaLabel)).length === 2`))
	var clock []string
	b.Does("the clock", chromedp.Evaluate(`(async () => {
		const slider = `+chrome.Find(".player input")+`, says = [];
		for (let i = 0; i <= 40; i++) {
			slider.value = i / 40 * slider.max;
			slider.dispatchEvent(new Event("input", {bubbles: true}));
			await new Promise((done) => setTimeout(done, 30));
			says.push(slider.getAttribute("aria-valuetext"));
		}
		return says;
	})()`, &clock, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	last := time.Duration(-1)
	for _, says := range clock {
		text, approved := strings.CutSuffix(says, " after the approval of canary")
		if !approved {
			continue
		}
		at, err := time.ParseDuration(text)
		if err != nil || at < last {
			t.Errorf("the clock goes backwards, or is none: %q", clock)
			break
		}
		last = at
	}
	if last < 10*time.Minute {
		t.Errorf("the clock ends at %s after the approval: %q", last, clock)
	}
	b.Quiet()
}

// groupHeadings is an expression for the headings of the groups of cells.
const groupHeadings = `[...document.querySelectorAll(".group h3")].map((h) => h.innerText).join()`

// choose chooses a value of the first select of the page.
func choose(value string) chromedp.Action {
	return chrome.Until(fmt.Sprintf(`((e) => !!e && (e.value = %q, e.dispatchEvent(new Event("change", {bubbles: true})), e.value === %[1]q))(%s)`, value, chrome.Find(".tools select")))
}

// TestAPlanByWave: while a plan is shown, nodes are grouped by its waves, also if its policy does not exist yet.
func TestAPlanByWave(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuuuuu", set)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	b.foresees(inWaves(`{"name": "zero", "nodes": {"count": 2}, "after": [{"type": "Approval"}]}, {"name": "half", "nodes": {"count": 3}}, {"name": "rest", "nodes": {"percent": 100}}`))
	b.Does("by wave", choose("wave"), chrome.Until(groupHeadings+` === "zero 2,half 3,rest 1"`))
	b.Does("without the plan", chrome.Press(chrome.Named(".foresight button", "Back to now")), chrome.Until(groupHeadings+` === ""`))
	b.Quiet()
}
