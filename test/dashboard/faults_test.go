// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// imagine serves an imaginary cluster with one set for each name.
func imagine(t *testing.T, letters string, names ...string) (cluster *fakecluster.Cluster, address string) {
	t.Helper()
	r := fakecluster.Roll{Name: names[0], Advanced: true, Letters: letters}
	objects := r.Objects(t)
	for _, name := range names[1:] {
		r.Name = name
		objects = append(append(append(objects, r.Pods()...), r.Revisions(t)...), r.Object())
	}
	cluster = fakecluster.New(t, objects...)
	return cluster, served(t, cluster)
}

// silence lets the first stream of a set stop after its first message, as if the connection were broken and nothing had closed it, and makes long waits short.
const silence = `((send, wait) => {
	window.streams = 0;
	window.setTimeout = (f, ms) => wait(f, ms >= 10000 ? 300 : ms);
	window.fetch = async (path, how) => {
		const answer = await send(path, how);
		if (!String(path).startsWith("api/set/stream") || ++streams > 1) return answer;
		const reader = answer.body.getReader();
		let first = true;
		return new Response(new ReadableStream({
			async pull(c) {
				if (!first) return new Promise(() => {});
				first = false;
				how.signal.addEventListener("abort", () => c.error(new Error("aborted")));
				c.enqueue((await reader.read()).value);
			},
		}));
	};
})(window.fetch.bind(window), window.setTimeout.bind(window))`

// TestASilentConnection: a stream of which nothing arrives any more is not taken for a cluster in which nothing happens. The page reads again, and is right.
func TestASilentConnection(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uuu", set)
	base, _, _ := strings.Cut(address, "#")
	b.Does("a stream that stops", log.Enable(), chromedp.Navigate(address), chromedp.WaitVisible("table.sets a"), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(silence).Do(ctx)
		return err
	}), chromedp.Navigate("about:blank"), chromedp.Navigate(base+"#/set/default/ads/"+set), chrome.Until(chrome.Count(".cell.g1")+" === 3"))
	changePod(t, cluster, 0, corev1.ConditionFalse)
	b.Does("the change", chrome.Until("streams > 1 && "+chrome.Count(".cell.g1")+" === 2"))
	b.Quiet()
}

// changePod sets the condition of readiness of the pod on a node.
func changePod(t testing.TB, cluster *fakecluster.Cluster, node int, status corev1.ConditionStatus) {
	t.Helper()
	pods := cluster.Kubernetes.CoreV1().Pods("default")
	pod, err := pods.Get(t.Context(), fmt.Sprintf("%s-node-%d-%s", set, node+1, fakecluster.NewHash[:3]), metav1.GetOptions{})
	if err == nil {
		pod.ResourceVersion, pod.Status.Conditions[0].Status = pod.ResourceVersion+"0", status
		_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAddresses: what was entered for one set does not stay on the page of another, and an address that is none leads to the list.
func TestAddresses(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "oou", set, "other")
	to := func(hash string) chromedp.Action {
		return chromedp.Evaluate(fmt.Sprintf("location.hash = %q", hash), nil)
	}
	b.Does("a form", log.Enable(), chromedp.Navigate(address), chromedp.WaitVisible("table.sets a"), to("#/set/default/ads/"+set), chrome.Press(chrome.Find(".foresight summary")),
		chrome.Enter(".foresight input.wide", "registry.example/agent:3"), chrome.Enter(".tools input[type=search]", "node-1"))
	b.Does("another set", to("#/set/default/ads/other"), chrome.Until(`document.querySelector("h1")?.innerText.includes("default/ads/other")`), chrome.Until(chrome.Count(".cell")+" === 3"))
	var image, search string
	b.Does("its form", chromedp.Value(".foresight input.wide", &image), chromedp.Value(".tools input[type=search]", &search))
	if image != "registry.example/agent:2" || search != "" {
		t.Errorf("the form of another set has the image %q, and searches for %q", image, search)
	}
	for _, hash := range []string{"#/set/%", "#/set/default", "#/set/default/ads", "#/set/default/ads/agent/x", "#/node", "#/node/%E0%A4%A", "#/none/x"} {
		b.Does("the address "+hash, to(hash), chrome.Until(`!!document.querySelector("table.sets a")`), to("#/set/default/ads/other"), chrome.Until(chrome.Count(".cell")+" === 3"))
	}
	b.Quiet()
}

// TestLargePolicies: a policy of more than 16 KiB is planned; one that no API server stores is rejected with the name of the field.
func TestLargePolicies(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "oou", set)
	grow := func(bytes int) chromedp.Action {
		return chromedp.Evaluate(fmt.Sprintf(`((e) => { e.value = e.value.replace(/#x*\n/, "") .replace("spec:", "#" + "x".repeat(%d) + "\nspec:"); e.dispatchEvent(new Event("input", {bubbles: true})); })(%s)`,
			bytes, chrome.Find(".foresight textarea")), nil)
	}
	plan := chrome.Press(chrome.Find(".foresight button[type=submit]"))
	b.Does("the editor", firstSet(address), chrome.Press(chrome.Find(".foresight summary")),
		chrome.Press(chrome.Find(".foresight input[type=checkbox]")), chrome.Until(`document.querySelector(".foresight textarea").value.includes("spec:")`))
	b.Does("a large policy", grow(100_000), plan, chrome.Until(`(document.querySelector("[data-plan]")?.innerText || "").includes("This is a plan")`))
	b.Does("one that is too large", grow(2<<20), plan, chrome.Until(`document.querySelector(".foresight [role=alert]")?.innerText.startsWith("Rollout policy: it has 2")`))
	b.Does("a large policy again", grow(50_000), plan, chrome.Until(`!document.querySelector(".foresight [role=alert]") && document.querySelector("[data-plan]")`))
	b.Quiet()
}

// TestTheOtherPagesAreAccessible checks the pages that no other test checks: those about what is not there, a picture that is drawn, an open comparison, and a phone.
func TestTheOtherPagesAreAccessible(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, strings.Repeat("u", 2100)+"oO", set, "other")
	base, _, _ := strings.Cut(address, "#")
	b.Does("a set that is drawn", chromedp.Navigate(address), chromedp.WaitVisible("table.sets a"), chromedp.Navigate(base+"#/set/default/ads/"+set), chromedp.WaitVisible("[data-picture=canvas]"),
		chromedp.Focus("canvas"), chromedp.KeyEvent("\r"), chromedp.WaitVisible(".panel"), chrome.Press(chrome.Named("td button", "from 1")), chromedp.WaitVisible("pre.diff"))
	b.accessible("a set that is drawn")
	b.Does("a phone", emulation.SetDeviceMetricsOverride(390, 844, 1, true))
	b.accessible("a set on a phone")
	var tooWide bool
	b.Does("its width", chromedp.Evaluate(wide, &tooWide))
	if tooWide {
		t.Error("the page of a set is wider than a phone")
	}
	b.Does("a set that does not exist", emulation.ClearDeviceMetricsOverride(), chromedp.Navigate(base+"#/set/default/ads/none"), chrome.Until(`document.body.innerText.includes("it does not exist")`))
	b.accessible("a set that does not exist")
	b.Does("a set that is deleted", chromedp.Navigate(base+"#/set/default/ads/other"), chromedp.WaitVisible("[data-picture]"))
	sets := cluster.Dynamic.Resource(fakecluster.Roll{Name: "other", Advanced: true}.Object().GroupVersionKind().GroupVersion().WithResource("daemonsets")).Namespace("default")
	if err := sets.Delete(t.Context(), "other", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.Does("its page", chrome.Until(`document.body.innerText.includes("The set was deleted.")`))
	b.accessible("a set that is deleted")
	b.Does("a session that has ended", network.ClearBrowserCookies(), chromedp.Navigate("about:blank"), chromedp.Navigate(base+"#token=wrong"), chrome.Until(`document.querySelector("h1")?.innerText === "The page cannot be shown"`))
	b.accessible("a page that cannot be shown")
}

// watched notes the streams of a set that are begun, and those that are aborted, and lets a test say whether the window is in the background.
const watched = `((send) => {
	window.begun = 0; window.aborted = 0; window.background = false;
	Object.defineProperty(document, "hidden", {get: () => background});
	window.turn = (to) => { background = to; document.dispatchEvent(new Event("visibilitychange")); };
	window.fetch = (path, how) => {
		if (String(path).startsWith("api/set/stream")) {
			begun++;
			how.signal.addEventListener("abort", () => aborted++);
		}
		return send(path, how);
	};
})(window.fetch.bind(window))`

// TestAWindowInTheBackground follows nothing, and is right when it is visible again.
func TestAWindowInTheBackground(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uuu", set)
	base, _, _ := strings.Cut(address, "#")
	b.Does("a visible window", log.Enable(), chromedp.Navigate(address), chromedp.WaitVisible("table.sets a"), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(watched).Do(ctx)
		return err
	}), chromedp.Navigate("about:blank"), chromedp.Navigate(base+"#/set/default/ads/"+set), chrome.Until(chrome.Count(".cell.g1")+" === 3 && begun === 1 && aborted === 0"))
	b.Does("the background", chromedp.Evaluate("turn(true)", nil), chrome.Until("aborted === 1"))
	changePod(t, cluster, 0, corev1.ConditionFalse)
	var begun, cells int
	b.Does("what it follows", chromedp.Evaluate("begun", &begun), chromedp.Evaluate(chrome.Count(".cell.g1"), &cells))
	if begun != 1 || cells != 3 {
		t.Errorf("in the background %d streams were begun, and %d cells are up to date", begun, cells)
	}
	b.Does("visible again", chromedp.Evaluate("turn(false)", nil), chrome.Until("begun === 2 && "+chrome.Count(".cell.g1")+" === 2"))
	b.Quiet()
}

// TestWhatAUserMayNotDo: the buttons of all actions are disabled, with the right that is missing, and so is applying a plan.
func TestWhatAUserMayNotDo(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "oou", set)
	cluster.Denied = true
	const actions = `[...document.querySelectorAll(".actions[aria-label=Actions] > button")]`
	b.Does("the actions", firstSet(address), chrome.Until(actions+".length > 5 && "+actions+".every((e) => e.disabled)"),
		chrome.Until(actions+`.every((e) => e.title.startsWith("You may not do that: ") && e.title.includes('"patch" on "daemonsets.apps.kruise.io"'))`),
		chrome.Until(`document.querySelector(".denied").textContent.includes('"patch" on "daemonsets.apps.kruise.io"')`), chrome.Until(`[...document.querySelectorAll("td button")].some((e) => e.innerText === "undo to 1" && e.disabled && e.title.includes("daemonsets.apps.kruise.io"))`))
	b.accessible("what a user may not do")
	b.Does("a plan", chrome.Press(chrome.Find(".foresight summary")), chrome.Enter(".foresight input.wide", "registry.example/agent:3"), chrome.Press(chrome.Find(".foresight button[type=submit]")),
		chrome.Until(chrome.Find("[data-plan] button.main")+`?.disabled && document.querySelector("[data-plan] .denied").innerText.includes("You may not do that: ")`))
	b.Quiet()
}

// hurried makes long waits short.
const hurried = `((wait) => { window.setTimeout = (f, ms) => wait(f, ms >= 5000 ? 200 : ms); })(window.setTimeout.bind(window))`

// TestRightsThatChange: a page that stays open notices that a user has got a right, and that a user has lost it.
func TestRightsThatChange(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "oou", set)
	var denied atomic.Bool
	cluster.Kubernetes.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, kuberuntime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: !denied.Load()}}, nil
	})
	base, _, _ := strings.Cut(address, "#")
	pause := chrome.Named(".actions > button", "pause")
	b.Does("a user with all rights", log.Enable(), chromedp.Navigate(address), chromedp.WaitVisible("table.sets a"), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(hurried).Do(ctx)
		return err
	}), chromedp.Navigate("about:blank"), chromedp.Navigate(base+"#/set/default/ads/"+set), chrome.Until(pause+" && !"+pause+".disabled"))
	denied.Store(true)
	b.Does("without them", chrome.Until(pause+`.disabled && `+pause+`.title.startsWith("You may not do that: ")`))
	denied.Store(false)
	b.Does("with them again", chrome.Until("!"+pause+".disabled"))
	b.Quiet()
}

// cuts lets no stream of a set begin while window.cut is true, and ends those that there are when it is set by sever.
const cuts = `((send, wait) => {
	window.cut = false;
	window.setTimeout = (f, ms) => wait(f, Math.min(ms, 300));
	const streams = new Set();
	window.sever = () => { cut = true; streams.forEach((c) => c.abort()); };
	window.fetch = async (path, how) => {
		if (!String(path).startsWith("api/set/stream")) return send(path, how);
		if (cut) throw new TypeError("Failed to fetch");
		const own = new AbortController();
		streams.add(own);
		how.signal.addEventListener("abort", () => own.abort());
		return send(path, {...how, signal: own.signal});
	};
})(window.fetch.bind(window), window.setTimeout.bind(window))`

// TestAConnectionThatIsCut: the page says that it is not up to date, and after it has connected again it has what changed meanwhile, and nothing of what is gone.
func TestAConnectionThatIsCut(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uuuo", set)
	base, _, _ := strings.Cut(address, "#")
	b.Does("a picture", log.Enable(), chromedp.Navigate(address), chromedp.WaitVisible("table.sets a"), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(cuts).Do(ctx)
		return err
	}), chromedp.Navigate("about:blank"), chromedp.Navigate(base+"#/set/default/ads/"+set), chrome.Until(chrome.Count(".cell.g1")+" === 3 && "+chrome.Count(".cell")+" === 4"))
	b.Does("a cut", chromedp.Evaluate("sever()", nil), chrome.Until(shows("main [role=status]", "Not up to date: there is no connection to the dashboard")))
	changePod(t, cluster, 0, corev1.ConditionFalse)
	if err := cluster.Kubernetes.CoreV1().Pods("default").Delete(t.Context(), fmt.Sprintf("%s-node-4-%s", set, fakecluster.OldHash[:3]), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Kubernetes.CoreV1().Nodes().Delete(t.Context(), "node-4", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var before int
	b.Does("what it shows while it is cut", chromedp.Evaluate(chrome.Count(".cell"), &before))
	if before != 4 {
		t.Errorf("the page follows although it is cut: it has %d cells", before)
	}
	b.Does("a connection again", chromedp.Evaluate("cut = false", nil), chrome.Until(chrome.Count(".cell.g1")+" === 2 && "+chrome.Count(".cell")+" === 3"),
		chrome.Until(labelled("node-1", "the new pod is not available yet")), chrome.Until("!"+shows("main [role=status]", "Not up to date")))
	b.Quiet()
}

// TestTwoUsers: two dashboards of two users are open in one browser. Each has its own session, sees its own cluster, and offers what its user may do.
func TestTwoUsers(t *testing.T) {
	b := browse(t)
	_, mine := imagine(t, "oou", set)
	theirs, address := imagine(t, "ou", set)
	theirs.Denied = true
	ctx, cancel := chromedp.NewContext(b.Ctx)
	defer cancel()
	other := b.On(t)
	other.Ctx = ctx
	pause := chrome.Named(".actions > button", "pause")
	b.Does("a user who may do everything", firstSet(mine), chrome.Until(pause+" && !"+pause+".disabled"), chrome.Until(chrome.Count(".cell")+" === 3"))
	other.Does("one who may only look", chromedp.Navigate(address), chrome.Press(chrome.Find("table.sets a")), chrome.Until(chrome.Count(".cell")+" === 2"),
		chrome.Until(pause+`?.disabled && `+pause+`.title.startsWith("You may not do that: ")`))
	b.Does("the first one, after the other has a session", page.BringToFront(), chromedp.Reload(), chrome.Until(pause+" && !"+pause+".disabled"), chrome.Until(chrome.Count(".cell")+" === 3"),
		chrome.Press(pause), chrome.Until(chrome.Find("dialog[open]")))
	b.Quiet()
}

// TestWhatDoesNotExist: for a set or a node that does not exist the page says that, without empty tables, and does not ask again at once.
func TestWhatDoesNotExist(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuu", set)
	b.Does("the list", log.Enable(), chromedp.Navigate(address), chromedp.WaitVisible("table.sets a"))
	for of, says := range map[string]string{"set/default/ads/none": "The set is not there: it does not exist", "node/none": "The node is not there: it does not exist"} {
		var requests int
		b.Does(of, chromedp.Evaluate(`performance.clearResourceTimings(); location.hash = "#/`+of+`"; null`, nil), chrome.Until(shows("main .warning", says)), chrome.Until(chrome.Count("main table, main h2")+" === 0"),
			chromedp.Sleep(2*time.Second), chromedp.Evaluate(`performance.getEntriesByType("resource").filter((e) => e.name.includes("stream?")).length`, &requests))
		if requests > 1 {
			t.Errorf("%s: the page has asked %d times", of, requests)
		}
	}
	b.Quiet("404")
}
