// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"everynode.dev/everynode/test/chrome"
)

// TestAChosenNodeIsAnnounced: a live region, which exists before, gets what a screen reader reads; the focus stays on the cell, which says that it has opened the panel.
func TestAChosenNodeIsAnnounced(t *testing.T) {
	const announced, end = "[role=status][data-announced]", "The panel after the picture has the details; Escape closes it."
	b := browse(t)
	_, address := imagine(t, "uuo", set)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell")+" === 3"), chrome.Until(chrome.Find(announced)+`.innerText === ""`), chromedp.Evaluate(`window.region = `+chrome.Find(announced)+`; null`, nil))
	cell := chrome.Find(".cell[data-node=node-3]")
	b.Does("a node", chromedp.Focus(".cell"), chromedp.KeyEvent(kb.End), chromedp.KeyEvent(kb.Enter), chrome.Until(shows(announced, "node-3: ")), chrome.Until(shows(announced, end)),
		chrome.Until(`region === `+chrome.Find(announced)+` && document.activeElement === `+cell), chrome.Until(cell+`.ariaExpanded === "true" && `+cell+`.getAttribute("aria-controls") === `+chrome.Find(".panel.node")+`.id`))
	b.accessible("a chosen node")
	b.Does("closed", chromedp.KeyEvent(kb.Escape), chrome.Until(chrome.Find(announced)+`.innerText === "" && document.activeElement === `+cell+` && `+cell+`.ariaExpanded === "false"`))
	b.Quiet()
}

// TestAChosenNodeOfALargeFleetIsAnnounced, in which cells are no elements.
func TestAChosenNodeOfALargeFleetIsAnnounced(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, strings.Repeat("u", 2500), set)
	b.Does("a node", firstSet(address), chromedp.WaitVisible("[data-picture=canvas] canvas"), chromedp.Focus("canvas"), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.Enter),
		chrome.Until(shows("[role=status][data-announced]", "node-2: ")), chrome.Until(`document.activeElement.tagName === "CANVAS"`))
	b.Quiet()
}
