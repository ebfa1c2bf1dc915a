// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"github.com/chromedp/chromedp"

	"everynode.dev/everynode/test/chrome"
)

// TestUndoToCommittedAndApprovalsInAdvance: their dialogs name the set, the wave and how many nodes they concern, and send the verb with the wave.
func TestUndoToCommittedAndApprovalsInAdvance(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uuo", set)
	governed(t, cluster, `{"name": "canary", "nodes": {"count": 2}, "after": [{"type": "Approval"}]}`, `"phase": "Rolling", "wave": "canary", "waves": [
		{"name": "canary", "nodes": 2, "updated": 2, "available": 1, "phase": "Rolling"}, {"name": "remaining", "nodes": 1, "updated": 0, "available": 0, "phase": "Pending"}]`)
	b.Does("an approval in advance", firstSet(address), chrome.Until(chrome.Count(".cell")+" === 3"), chromedp.Evaluate(answering, nil), chrome.Press(chrome.Named(".advance button", "approve canary in advance")),
		chrome.Until(chrome.Find("dialog h2")+`?.innerText === "approve default/ads/`+set+`, wave canary?"`), chrome.Until(shows("dialog [data-effect]", "1 node of the wave remaining can begin when the wave canary is complete and has soaked")),
		chrome.Until(`sent.some((s) => s.verb === "approve" && s.flags.wave === "canary" && s.dryRun)`), chrome.Press(chrome.Named("dialog button", "Cancel")))
	b.Does("an undo", chrome.Press(chrome.Named(".actions > button", "undo to committed")), chrome.Until(chrome.Find("dialog h2")+`?.innerText === "undo to committed default/ads/`+set+`?"`),
		chrome.Until(shows("dialog [data-effect]", "2 nodes with revision ")), chrome.Until(`sent.some((s) => s.verb === "undo-to-committed" && s.dryRun)`), chrome.Until(chrome.Count("dialog label input")+" === 1"))
	b.accessible("an undo to the committed revision")
	b.Quiet()
}
