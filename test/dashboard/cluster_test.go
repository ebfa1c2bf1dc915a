// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// TestTheClusterIsNamed on each page and in the title of the window: a user who has two of them open changes the one that is meant.
func TestTheClusterIsNamed(t *testing.T) {
	b := browse(t)
	cluster := fakecluster.New(t, fakecluster.Roll{Name: set, Advanced: true, Letters: "uuo"}.Objects(t)...)
	*cluster.Options.ConfigFlags.Context = "staging"
	address := served(t, cluster)
	named := chrome.Until(shows("header.top", "cluster staging") + ` && document.title.endsWith("staging · Everynode")`)
	b.Does("the list", log.Enable(), chromedp.Navigate(address), chrome.Until(chrome.Count("table.sets tbody tr")+" === 1"), named)
	b.Does("a set", chrome.Press(chrome.Find("table.sets a")), chrome.Until(chrome.Count(".cell")+" === 3"), named)
	b.accessible("a set of a cluster with a name")
	b.Quiet()
}
