// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// served runs the dashboard for an imaginary cluster, and returns its URL when it watches pods.
func served(t *testing.T, cluster *fakecluster.Cluster) string {
	t.Helper()
	cluster.HonourDryRun(t) // a plan changes nothing
	watched := cluster.Watched("pods")
	address := serve(t.Context(), t, cluster)
	<-watched
	return address
}

// firstSet opens a dashboard, and in it the page of the first set of the list. What the browser complains about counts from then on.
func firstSet(address string) chromedp.Action {
	return chromedp.Tasks{log.Enable(), chromedp.Navigate(address), chrome.Press(chrome.Find("table.sets a"))}
}
