// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// TestHiddenCharacters: characters that are not shown by their looks are shown by their numbers, also in the names of images, and a backslash of a text stays what it is.
func TestHiddenCharacters(t *testing.T) {
	b := browse(t)
	objects := fakecluster.Roll{Name: set, Advanced: true, Letters: "u"}.Objects(t)
	for _, object := range objects {
		if pod, is := object.(*corev1.Pod); is {
			pod.Spec.Containers[0].Image = "registry.example/a\x1b[2J\b\rb\x7f\u009b\u202ec\\u001b\\b:1"
		}
	}
	cluster := fakecluster.New(t, objects...)
	address := served(t, cluster)
	b.Does("the image of a pod", firstSet(address), chrome.Press(chrome.Find(".cell")),
		chrome.Until(`document.querySelector(".panel td code")?.textContent === "registry.example/a\\u001b[2J\\u0008\\u000db\\u007f\\u009b\\u202ec\\u001b\\b:1"`))
	b.Quiet()
}

// refuses lets the browser refuse to copy, and the answer to a change that is made get lost.
const refuses = `navigator.clipboard.writeText = () => Promise.reject(new Error("no"));
window.fetch = ((send) => async (path, how) => {
	if (String(path) !== "api/verb") return send(path, how);
	if (!JSON.parse(how.body).dryRun) throw new Error("the connection was cut");
	return new Response(JSON.stringify({line: "kubectl everynode pause --dry-run=server ads/agent", output: "paused"}));
})(window.fetch.bind(window))`

// TestTheLineAfterAnError: when a change has failed, the command for a shell is still there; and if the browser does not copy it, the page says so.
func TestTheLineAfterAnError(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuu", set)
	b.Does("an action", firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 3"), chromedp.Evaluate(refuses, nil),
		chrome.Press(chrome.Named(".actions > button", "pause")), chrome.Until(shows("dialog pre", "paused")), chrome.Press(chrome.Find("dialog button.main")),
		chrome.Until(shows("dialog [role=alert]", "the connection was cut")))
	b.Does("its line", chrome.Until(`document.querySelector("dialog .line code")?.innerText === "kubectl everynode pause ads/agent"`))
	b.Does("a copy", chrome.Press(chrome.Named("dialog .line button", "Copy")), chrome.Until(shows("dialog .line [role=status]", "select the line")))
	b.Does("a copy that works", chromedp.Evaluate(`navigator.clipboard.writeText = async (text) => { window.copied = text; }`, nil), chrome.Press(chrome.Named("dialog .line button", "Copy")),
		chrome.Until(shows("dialog .line [role=status]", "Copied.")), chrome.Until(`window.copied === "kubectl everynode pause ads/agent"`))
	b.Quiet()
}
