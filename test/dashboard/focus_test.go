// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"everynode.dev/everynode/test/chrome"
)

// TestTheFocusIsNotCovered: while the panel of a node is shown, a cell that gets the focus by the keyboard is neither below the panel nor below the legend.
func TestTheFocusIsNotCovered(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, strings.Repeat("u", 1500), set)
	b.Does("a panel", chromedp.EmulateViewport(700, 700), firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 1500"),
		chrome.Press(chrome.Find(".cell[data-node=node-1]")), chrome.Until(shows(".panel.node h3", "node-1")))
	uncovered := `((cell, panel, legend) => cell.bottom <= panel.top && cell.top >= legend.bottom)(document.activeElement.getBoundingClientRect(), ` + chrome.Find(".panel.node") + `.getBoundingClientRect(), ` + chrome.Find(".steer") + `.getBoundingClientRect())`
	cell := func(node string) string {
		return chrome.Find(".cell[data-node=" + node + "]")
	}
	b.Does("the middle", chromedp.Evaluate(cell("node-700")+".focus()", nil), chrome.Until(uncovered))
	b.Does("back", chromedp.Evaluate(cell("node-300")+".focus()", nil), chrome.Until(uncovered), chromedp.KeyEvent(kb.ArrowLeft), chrome.Until(`document.activeElement.dataset.node === "node-299" && `+uncovered))
	b.Quiet()
}
