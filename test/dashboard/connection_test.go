// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/test/chrome"
)

// unanswered lets a test say whether the window is in the background, and how streams of a set are answered: dead is for none, refused for the status 401 of a proxy.
const unanswered = `((send, wait) => {
	window.begun = 0; window.background = false; window.dead = false; window.refused = false; window.hurry = false;
	const streams = new Set();
	window.setTimeout = (f, ms) => wait(f, hurry && ms >= 10000 ? 300 : ms);
	Object.defineProperty(document, "hidden", {get: () => background});
	window.turn = (to) => { background = to; document.dispatchEvent(new Event("visibilitychange")); };
	window.sever = () => streams.forEach((c) => c.abort());
	window.fetch = (path, how) => {
		if (!String(path).startsWith("api/set/stream")) return send(path, how);
		begun++;
		if (refused) return Promise.resolve(new Response("<h1>Sign in</h1>", {status: 401}));
		if (dead) return new Promise((_, fails) => how.signal.addEventListener("abort", () => fails(new DOMException("aborted", "AbortError"))));
		const own = new AbortController();
		streams.add(own);
		how.signal.addEventListener("abort", () => own.abort());
		return send(path, {...how, signal: own.signal});
	};
})(window.fetch.bind(window), window.setTimeout.bind(window))`

// opens shows a set in a page that runs a script first.
func (b *browser) opens(address, script, set string) {
	b.t.Helper()
	base, _, _ := strings.Cut(address, "#")
	b.Does("a set", log.Enable(), chromedp.Navigate(address), chromedp.WaitVisible("table.sets a"), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(script).Do(ctx)
		return err
	}), chromedp.Navigate("about:blank"), chromedp.Navigate(base+"#/set/default/ads/"+set), chromedp.WaitVisible(".cell"))
}

// TestAConnectionThatIsLostInTheBackground: when the window is visible again and the dashboard does not answer, the page does not show what it has as the present, and tries again.
func TestAConnectionThatIsLostInTheBackground(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uuu", set)
	b.opens(address, unanswered, set)
	b.Does("visible again, without an answer", chromedp.Evaluate("turn(true); dead = true; turn(false)", nil), chrome.Until(shows("main [role=status]", "Not up to date: the dashboard has not answered yet")))
	b.Does("further attempts", chromedp.Evaluate("turn(true); hurry = true; turn(false)", nil), chrome.Until(shows("main [role=status]", "Not up to date: there is no connection to the dashboard")), chrome.Until("begun > 4"))
	changePod(t, cluster, 0, corev1.ConditionFalse)
	b.Does("an answer", chromedp.Evaluate("hurry = false; dead = false", nil), chrome.Until(chrome.Count(".cell.g1")+" === 2"), chrome.Until("!"+shows("main [role=status]", "Not up to date")))
	b.Quiet()
}

// TestAProxyThatRefusesOnce: when a proxy refuses a request, for example while it renews a token, the page tries again.
func TestAProxyThatRefusesOnce(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uuu", set)
	b.opens(address, unanswered, set)
	b.Does("a refusal", chromedp.Evaluate("refused = true; sever()", nil), chrome.Until(shows("main [role=status]", "Not up to date: the status of the answer is 401")))
	changePod(t, cluster, 0, corev1.ConditionFalse)
	b.Does("an answer", chromedp.Evaluate("refused = false", nil), chrome.Until(chrome.Count(".cell.g1")+" === 2"), chrome.Until("!"+shows("main [role=status]", "Not up to date")))
	b.Quiet()
}

// TestAnotherTokenInAnOpenTab: the URL of a dashboard that was started again works in the tab of the earlier one, where only the fragment of the address changes.
func TestAnotherTokenInAnOpenTab(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuu", set)
	_, token, _ := strings.Cut(address, "#")
	b.Does("the list", log.Enable(), chromedp.Navigate(address), chromedp.WaitVisible("table.sets a"), network.ClearBrowserCookies(), chromedp.Evaluate(`window.earlier = true; location.hash = "`+token+`"; null`, nil),
		chrome.Until(`!window.earlier && location.hash === "#/" && `+chrome.Count("table.sets a")+" === 1"))
	b.Quiet()
}
