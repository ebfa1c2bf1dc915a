// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"

	"everynode.dev/everynode/test/chrome"
)

// TestAnAddressWithAnotherToken: a link of another page, with a token that is none of this dashboard, neither ends the session of the user nor keeps the page from being shown, and does not stay in the address.
func TestAnAddressWithAnotherToken(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuo", set)
	base, _, _ := strings.Cut(address, "#")
	b.Does("the list", log.Enable(), chromedp.Navigate(address), chrome.Until(chrome.Count("table.sets tbody tr")+" === 1"))
	for _, token := range []string{"another", "a.b.c", "", "%00"} {
		b.Does("the link", chromedp.Navigate("about:blank"), chromedp.Navigate(base+"#token="+token), chrome.Until(chrome.Count("table.sets tbody tr")+` === 1 && location.hash === "#/"`))
		b.Does("in an open tab", chromedp.Evaluate(`window.before = true; location.hash = "#token=`+token+`"; null`, nil),
			chrome.Until("!window.before && "+chrome.Count("table.sets tbody tr")+` === 1 && location.hash === "#/"`))
	}
	b.Quiet("401")
}
