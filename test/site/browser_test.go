// SPDX-License-Identifier: Apache-2.0

package site

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// pictures is where TestBrowser writes screenshots.
var pictures = flag.String("pictures", "", "the directory where screenshots are written; none without it")

// patience is how long a page may take to show something.
const patience = time.Minute

// browser is a headless Chromium with one window, and what is wrong with what it has seen.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	wrong []string
}

// browse starts the browser, or skips the test where there is none.
func browse(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("SKIPPED: the pages need a browser, and there is no Chromium: install it, on Debian with apt-get install chromium, and run make test SUITE=site")
	}
	how := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.WindowSize(1280, 800), chromedp.WSURLReadTimeout(patience))
	if os.Geteuid() == 0 {
		how = append(how, chromedp.NoSandbox) // Chromium's sandbox does not run as root
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), how...)
	t.Cleanup(cancel)
	b := &browser{t: t}
	// What it does not know of newer browsers is no news.
	b.ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(cancel)
	chromedp.ListenTarget(b.ctx, b.listen)
	if err := chromedp.Run(b.ctx, network.Enable(), log.Enable()); err != nil { // it lives as long as the context of this call
		t.Fatalf("starting %s: %v", program, err)
	}
	return b
}

func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if to, err := url.Parse(e.Request.URL); err != nil || to.Hostname() != "127.0.0.1" && to.Scheme != "data" && to.Scheme != "blob" {
			b.wrong = append(b.wrong, "it asks for "+e.Request.URL)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 && !strings.HasSuffix(e.Response.URL, "/favicon.ico") {
			b.wrong = append(b.wrong, fmt.Sprintf("%s answers %d", e.Response.URL, e.Response.Status))
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError {
			b.wrong = append(b.wrong, fmt.Sprintf("console: %s", e.Args[0].Value))
		}
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, e.ExceptionDetails.Text)
	}
}

// quiet checks that nothing was wrong.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.wrong) > 0 {
		b.t.Errorf("the browser complains: %s", strings.Join(b.wrong, "; "))
	}
}

// until waits for expressions of JavaScript, one after the other.
func (b *browser) until(expressions ...string) {
	b.t.Helper()
	for _, expression := range expressions {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		// A page that is left takes the poll with it: then it begins again.
		err := chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) error {
			for {
				met := false
				if err := chromedp.Evaluate("!!("+expression+")", &met).Do(ctx); err == nil && met {
					return nil
				}
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(100 * time.Millisecond):
				}
			}
		}))
		cancel()
		if err != nil {
			shown := ""
			_ = chromedp.Run(b.ctx, chromedp.Text("body", &shown)) // for the message only
			b.t.Fatalf("the page shows:\n%s\nwaiting for %s: %v", shown, expression, err)
		}
	}
}

// visit opens a page and waits for expressions.
func (b *browser) visit(url string, expressions ...string) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, chromedp.Navigate(url)); err != nil {
		b.t.Fatalf("opening %s: %v", url, err)
	}
	b.until(expressions...)
}

// picture writes a screenshot, if they are wanted.
func (b *browser) picture(name string) {
	b.t.Helper()
	if *pictures == "" {
		return
	}
	var data []byte
	shot := chromedp.ActionFunc(func(ctx context.Context) (err error) {
		data, err = page.CaptureScreenshot().WithOptimizeForSpeed(false).Do(ctx)
		return err
	})
	if err := chromedp.Run(b.ctx, emulation.SetDeviceMetricsOverride(1280, 800, 1, false), shot); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

const (
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
	b.visit(url, `document.querySelector("h1")?.innerText.includes("Documentation")`, `document.querySelectorAll(".VPSidebar a").length > 40`)
	b.visit(url+"concepts.html", drawn, "!"+dark, `document.querySelector("figure, img, svg")`)
	b.until(`(window.before = document.querySelector(".mermaid svg").id, document.querySelector(".VPNavBarAppearance button, button.VPSwitchAppearance").click(), true)`,
		dark, drawn, `document.querySelector(".mermaid svg").id !== window.before`)
	b.picture("site-dark")
	// The choice is kept, and undone for the next picture.
	b.visit(url+"getting-started.html", dark, `(document.querySelector(".VPNavBarAppearance button, button.VPSwitchAppearance").click(), true)`, "!"+dark)
	b.until(`(document.querySelector(".DocSearch-Button").click(), true)`, `document.querySelector(".VPLocalSearchBox input")`,
		`((e) => (e.value = "bearer token", e.dispatchEvent(new Event("input")), true))(document.querySelector(".VPLocalSearchBox input"))`, result,
		`[...document.querySelectorAll(".VPLocalSearchBox .result")].some((r) => r.href.includes("/node-api.html") || r.href.includes("/security.html"))`)
	b.picture("site-search")
	b.until(`(`+result+`.click(), true)`, `!location.pathname.endsWith("getting-started.html")`, `document.querySelector("h1")`)
	b.quiet()
}
