// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"everynode.dev/everynode/test/chrome"
)

// inWindow is an expression for whether an element is in the window, from its begin to its end.
func inWindow(selector string) string {
	return `((r) => !!r && r.top >= 0 && r.bottom <= innerHeight && r.height > 0)(` + chrome.Find(selector) + `?.getBoundingClientRect())`
}

// TestAPictureThatIsHigherThanTheWindow: a click on a cell shows the panel of its node, and the legend stays visible; both are in the window, wherever the cell is.
func TestAPictureThatIsHigherThanTheWindow(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, strings.Repeat("u", 6000), set)
	b.Does("a large fleet", chromedp.EmulateViewport(1200, 700), firstSet(address), chromedp.WaitVisible("[data-picture=canvas] canvas"),
		chrome.Until(chrome.Find("canvas")+".getBoundingClientRect().height > 800"))
	for what, part := range map[string]string{"near the begin": "0.05", "near the end": "0.95"} {
		b.Does("a click "+what, chromedp.Evaluate(`((c) => {
			scrollTo(0, scrollY + c.getBoundingClientRect().top + `+part+` * c.clientHeight - 600);
			const r = c.getBoundingClientRect();
			c.dispatchEvent(new MouseEvent("click", {bubbles: true, clientX: r.left + 30, clientY: r.top + `+part+` * r.height}));
		})(`+chrome.Find("canvas")+`)`, nil), chrome.Until(shows(".panel.node", "up-to-date")), chrome.Until(inWindow(".panel.node")+" && "+inWindow(".steer")+" && "+inWindow(".legend")))
		b.Does("closed", chrome.Press(chrome.Named(".panel.node button", "Close")), chrome.Until(chrome.Count(".panel.node")+" === 0 && document.activeElement.tagName === 'CANVAS'"))
	}
	b.Quiet()
}

// TestThePictureByKeys: Home and End go to the first and the last cell, Enter opens the panel, and Escape closes it and returns to the cell.
func TestThePictureByKeys(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuuuuu", set)
	at := func(node string) chromedp.Action {
		return chrome.Until(`document.activeElement.dataset.node === "` + node + `"`)
	}
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	b.Does("keys", chromedp.Focus(".cell"), chromedp.KeyEvent(kb.End), at("node-6"), chromedp.KeyEvent(kb.Home), at("node-1"), chromedp.KeyEvent(kb.ArrowRight), at("node-2"))
	b.Does("the panel", chromedp.KeyEvent(kb.Enter), chrome.Until(shows(".panel.node h3", "node-2")), chromedp.Focus(".panel.node .right button"), chromedp.KeyEvent(kb.Escape),
		chrome.Until(chrome.Count(".panel.node")+" === 0"), at("node-2"))
	b.Quiet()
}

// TestTheListInANarrowWindow: nothing of the list is beyond the edge of the window, also on a phone.
func TestTheListInANarrowWindow(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuo", set, "other")
	b.Does("the list", log.Enable(), chromedp.Navigate(address), chrome.Until(chrome.Count("table.sets tbody tr")+" === 2"))
	for _, width := range []int64{1100, 800, 390} {
		b.Does("a window", chromedp.EmulateViewport(width, 800), chrome.Until(`innerWidth === document.documentElement.clientWidth && [...document.querySelectorAll("table.sets td, table.sets th")].every((e) => {
			const r = e.getBoundingClientRect();
			return r.left >= 0 && r.right <= innerWidth && r.width > 0;
		})`), chrome.Until(`[...document.querySelectorAll("table.sets tbody tr")].every((e) => e.getBoundingClientRect().height < 260)`))
	}
	b.accessible("the list on a phone")
	b.Quiet()
}

// TestAfterAPlanWasApplied the window shows that it was, and how far the nodes are.
func TestAfterAPlanWasApplied(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuuuuu", set)
	b.Does("a set", chromedp.EmulateViewport(1000, 420), firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	b.foresees(inWaves(`{"name": "canary", "nodes": {"count": 2}, "after": [{"type": "Approval"}]}, {"name": "rest", "nodes": {"percent": 100}}`))
	b.Does("applied", chromedp.Evaluate(accepts, nil), chromedp.Evaluate(chrome.Find("[data-plan] button.main")+".scrollIntoView()", nil), chrome.Press(chrome.Find("[data-plan] button.main")),
		chromedp.WaitVisible("dialog[open] pre"), chrome.Press(chrome.Find("dialog button.main")), chrome.Press(chrome.Named("dialog .buttons button", "Close")), chrome.Until(inWindow("[data-applied]")))
	b.Quiet()
}
