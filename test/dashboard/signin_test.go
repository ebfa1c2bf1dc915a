// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"everynode.dev/everynode/test/chrome"
	"everynode.dev/everynode/test/harness"
)

// TestTheSignInPage signs in to a dashboard in the cluster with a browser: with a wrong token, with one that needs a namespace, and out again. Scripts never see the token.
func TestTheSignInPage(t *testing.T) {
	s := shared.Cluster(t).Space(t, 1)
	s.Run(set, harness.WithBudget("1", "0"))
	d := startInCluster(t, s)
	one := d.user("one")
	defer one.mayReadNodes()()
	s.Kubectl("create", "rolebinding", "view-of-one", "--clusterrole=view", "--serviceaccount="+s.Name+":one")
	b := browse(t, chromedp.Flag("ignore-certificate-errors", true), chromedp.Flag("host-resolver-rules", "MAP "+host+":443 "+strings.TrimPrefix(d.address, "https://")))
	// The page is loaded again after each answer, so what comes next is looked for in whatever document there is.
	heading := func(text string) chromedp.Action {
		return chromedp.WaitVisible("//h1[text()='"+text+"']", chromedp.BySearch)
	}
	const token, namespace = `input[type="password"]`, `input[placeholder="all namespaces"]`
	page := "https://" + host + "/"
	b.Does("a wrong token", chromedp.Navigate(page), heading("Sign in"), chromedp.SendKeys(token, "wrong"), chromedp.Click("button.main"),
		chrome.Until(`document.querySelector('[role="alert"]')?.textContent.includes("does not accept the token")`))
	b.accessible("sign in")
	b.picture("dashboard-signin", 400)
	b.Does("a token without the rights for all namespaces", chromedp.Navigate(page+"?again"), heading("Sign in"), chromedp.SendKeys(token, one.token), chromedp.Click("button.main"),
		heading("Choose a namespace"))
	b.accessible("choose a namespace")
	b.Does("a namespace", chromedp.SendKeys(namespace, s.Name), chromedp.Click("button.main"), chromedp.WaitVisible("//table//a[contains(., '"+set+"')]", chromedp.BySearch))
	b.accessible("the list of a user")
	var who, scripts, address string
	b.Does("reading the page", chromedp.Text(".user", &who), chromedp.Evaluate(`document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)`, &scripts), chromedp.Location(&address))
	if !strings.Contains(who, "system:serviceaccount:"+s.Name+":one in "+s.Name) || scripts != "{}{}" || strings.Contains(address, "token") {
		t.Errorf("the page names %q, scripts see %q, the address is %s", who, scripts, address)
	}
	b.Does("signing out", chromedp.Click(".user button"), heading("Sign in"))
	b.Quiet("the server responded with a status of 40") // as for a wrong token
}
