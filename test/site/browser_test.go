// SPDX-License-Identifier: Apache-2.0

package site

import (
	"flag"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"everynode.dev/everynode/test/chrome"
)

// pictures is where TestBrowser writes screenshots.
var pictures = flag.String("pictures", "", "the directory where screenshots are written; none without it")

// icon is the path of an icon that browsers ask for, and the site has none.
const icon = "/favicon.ico"

// browse starts the browser. What the site asks of another host, or does not find, is a complaint.
func browse(t *testing.T) *chrome.Browser {
	t.Helper()
	b := chrome.Start(t, "site")
	chromedp.ListenTarget(b.Ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if to, err := url.Parse(e.Request.URL); err != nil || to.Hostname() != "127.0.0.1" && to.Scheme != "data" && to.Scheme != "blob" {
				b.Complain("it asks for " + e.Request.URL)
			}
		case *network.EventResponseReceived:
			if e.Response.Status >= 400 && !strings.HasSuffix(e.Response.URL, icon) {
				b.Complain(fmt.Sprintf("%s answers %d", e.Response.URL, e.Response.Status))
			}
		}
	})
	b.Does("listening", network.Enable())
	return b
}

// visits opens a page, and waits for expressions, one after the other.
func visits(url string, expressions ...string) []chromedp.Action {
	return append([]chromedp.Action{chromedp.Navigate(url)}, untils(expressions...)...)
}

func untils(expressions ...string) (steps []chromedp.Action) {
	for _, expression := range expressions {
		steps = append(steps, chrome.Until(expression))
	}
	return steps
}

const (
	// height is that of the window in screenshots.
	height = 800

	dark   = `document.documentElement.classList.contains("dark")`
	drawn  = `document.querySelectorAll(".mermaid svg").length === document.querySelectorAll(".mermaid").length && document.querySelectorAll(".mermaid svg").length === 3`
	result = `document.querySelector(".VPLocalSearchBox .result")`
)

// TestBrowser builds the site of this repository, and reads it: diagrams are drawn, in light and in dark, the search finds a page by a word of its text, and nothing
// is asked of another host.
func TestBrowser(t *testing.T) {
	out := t.TempDir()
	if said, err := build(t, "../..", out); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	b := browse(t)
	url := serve(t, out) + "next/"
	b.Does("the first page", visits(url, `document.querySelector("h1")?.innerText.includes("Documentation")`, `document.querySelectorAll(".VPSidebar a").length > 40`)...)
	b.Does("the concepts", visits(url+"concepts.html", drawn, "!"+dark, `document.querySelector("figure, img, svg")`)...)
	b.Does("dark mode", untils(`(window.before = document.querySelector(".mermaid svg").id, document.querySelector(".VPNavBarAppearance button, button.VPSwitchAppearance").click(), true)`,
		dark, drawn, `document.querySelector(".mermaid svg").id !== window.before`)...)
	b.Picture(*pictures, "site-dark", height)
	// The choice is kept, and undone for the next picture.
	b.Does("light mode", visits(url+"getting-started.html", dark, `(document.querySelector(".VPNavBarAppearance button, button.VPSwitchAppearance").click(), true)`, "!"+dark)...)
	b.Does("a search", untils(`(document.querySelector(".DocSearch-Button").click(), true)`, `document.querySelector(".VPLocalSearchBox input")`,
		`((e) => (e.value = "bearer token", e.dispatchEvent(new Event("input")), true))(document.querySelector(".VPLocalSearchBox input"))`, result,
		`[...document.querySelectorAll(".VPLocalSearchBox .result")].some((r) => r.href.includes("/node-api.html") || r.href.includes("/security.html"))`)...)
	b.Picture(*pictures, "site-search", height)
	b.Does("a result", untils(`(`+result+`.click(), true)`, `!location.pathname.endsWith("getting-started.html")`, `document.querySelector("h1")`)...)
	b.Quiet(icon)
}
