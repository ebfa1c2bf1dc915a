// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"

	"everynode.dev/everynode/test/chrome"
)

// TestTheAddressKeepsWhatIsChosen: groups, what was searched for, the chosen node, and the order and the filter of the list are there again after a reload and after the way back.
func TestTheAddressKeepsWhatIsChosen(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuo", set, "other")
	list := `location.hash === "#/?find=other&sort=-Set" && ` + chrome.Count("table.sets tbody tr") + ` === 1 && ` + chrome.Find("input[type=search]") + `.value === "other" && ` + chrome.Find("[aria-sort=descending]") + `.innerText.startsWith("Set")`
	b.Does("the list", log.Enable(), chromedp.Navigate(address), chrome.Enter(".tools input[type=search]", "other"), chrome.Press(chrome.Find(".sort")), chrome.Press(chrome.Find(".sort")), chrome.Until(list))
	chosen := chrome.Find(".tools select") + `?.value === "verdict" && ` + chrome.Count(".group") + ` === 2 && ` + shows(".panel.node h3", "node-3") + ` && ` + chrome.Find(".tools input[type=search]") + `.value === "node" && ` + shows(".tools [role=status]", "3 of 3")
	b.Does("a set", chrome.Press(chrome.Find("table.sets a")), choose("verdict"), chrome.Enter(".tools input[type=search]", "node"), chrome.Press(chrome.Find(".cell[data-node=node-3]")), chrome.Until(chosen))
	b.Does("after a reload", chromedp.Reload(), chrome.Until(chosen))
	b.Does("after the way back from the node", chrome.Press(chrome.Find(".panel.node h3 a")), chrome.Until(shows("h1", "Node node-3")), chromedp.NavigateBack(), chrome.Until(chosen))
	b.Does("after the way back to the list", chromedp.NavigateBack(), chrome.Until(list))
	b.Quiet()
}

// TestAnAddressThatCannotChange: browsers limit how often the address changes. What the user enters still takes effect.
func TestAnAddressThatCannotChange(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuo", set, "other")
	b.Does("the list", log.Enable(), chromedp.Navigate(address), chrome.Until(chrome.Count("table.sets tbody tr")+" === 2"),
		chromedp.Evaluate(`history.replaceState = () => { throw new DOMException("Attempt to use history.replaceState() more than 100 times per 30 seconds", "SecurityError"); }; null`, nil),
		chrome.Enter(".tools input[type=search]", "other"), chrome.Until(chrome.Count("table.sets tbody tr")+" === 1"))
	b.Quiet()
}
