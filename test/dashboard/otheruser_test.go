// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"github.com/chromedp/chromedp"

	"everynode.dev/everynode/test/chrome"
)

// sharedCookie answers as a dashboard in the cluster: who is the user of the cookie, which all windows have, and requests of a window of another user are rejected.
const sharedCookie = `((send) => {
	const who = () => localStorage.getItem("who") || "alice", answer = (value, status) => Promise.resolve(new Response(JSON.stringify(value), {status}));
	window.fetch = (path, how) => {
		if (String(path) === "api/session") return answer({user: who(), window: "of " + who()}, 200);
		const own = how.headers["X-Everynode-Window"] || "of " + who();
		return own === "of " + who() ? send(path, how) : answer({error: "another user has signed in", ask: "reload"}, 409);
	};
})(window.fetch.bind(window))`

// TestAnotherUserInAnotherWindow: a window that was in the background does not go on under the name of the first user.
func TestAnotherUserInAnotherWindow(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuu", set)
	b.opens(address, sharedCookie, set)
	b.Does("the first user", chrome.Until(shows(".user", "alice")), chromedp.Evaluate(`window.left = true; localStorage.setItem("who", "bob")`, nil))
	b.Does("visible again", chromedp.Evaluate(`document.dispatchEvent(new Event("visibilitychange")); null`, nil), chrome.Until(shows(".user", "bob")+" && !window.left"), chrome.Until(chrome.Count(".cell.g1")+" === 3"))
	b.Quiet()
}
