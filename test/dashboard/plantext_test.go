// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"everynode.dev/everynode/test/chrome"
)

// TestWhatAPlanSays: it shows the difference of the templates, and counts nodes in words that are right for one and for none.
func TestWhatAPlanSays(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuuuuu", set)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	b.foresees(inWaves(`{"name": "canary", "nodes": {"count": 1}}, {"name": "rest", "nodes": {"percent": 100}}`))
	b.Does("the waves", chrome.Until(shows("[data-plan]", "wave canary: 1 node, starts at once, ends ")), chrome.Until(shows("[data-plan]", "wave rest: 5 nodes")))
	b.Does("the difference", chrome.Press(chrome.Named("[data-plan] summary", "Difference of the templates")), chrome.Until(shows("[data-plan] .diff .removed", "agent:2")+` || `+shows("[data-plan] .diff", "-")),
		chrome.Until(`[...document.querySelectorAll("[data-plan] .diff .added")].some((e) => e.innerText.includes("registry.example/agent:3"))`))
	b.accessible("a plan with its difference")
	b.Does("a plan that updates nothing", chrome.Press(chrome.Find(".foresight input[type=checkbox]")), chrome.Enter(".foresight input:not(.wide)", "6"), chrome.Press(chrome.Find(".foresight button[type=submit]")),
		chrome.Until(shows("[data-plan]", "6 wait; no node is updated.")))
	b.Quiet()
}
