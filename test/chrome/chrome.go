// SPDX-License-Identifier: Apache-2.0

// Package chrome drives a headless Chromium for tests of pages. A test does steps, each of which waits until it is possible, and ends with Quiet: then the browser
// has complained about nothing.
package chrome

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	// Patience is how long a page may take to show something.
	Patience = 2 * time.Minute
	// look is the time between two looks at a page.
	look = 50 * time.Millisecond
	// width is that of the window.
	width = 1280
)

// Browser is a headless Chromium with one window, and what it has complained about.
type Browser struct {
	Ctx context.Context

	t          testing.TB
	mu         sync.Mutex
	complaints []string
}

// Start starts the browser, or skips the test where there is none. suite is the suite of the test.
func Start(t testing.TB, suite string, more ...chromedp.ExecAllocatorOption) *Browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		t.Skip("SKIPPED: the page needs a browser, and there is no Chromium: install it, on Debian with apt-get install chromium, and run make test SUITE=" + suite)
	}
	how := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.WindowSize(width, 900), chromedp.WSURLReadTimeout(Patience),
		chromedp.Flag("force-prefers-reduced-motion", true)) // a screenshot is not of something in between
	if os.Geteuid() == 0 {
		how = append(how, chromedp.NoSandbox) // Chromium's sandbox does not run as root
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(how, more...)...)
	t.Cleanup(cancel)
	b := &Browser{t: t}
	// What it does not know of newer browsers is no news.
	b.Ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(cancel)
	chromedp.ListenTarget(b.Ctx, b.listen)
	if err := chromedp.Run(b.Ctx); err != nil { // it lives as long as the context of this call
		t.Fatalf("starting %s: %v", program, err)
	}
	return b
}

// On is the same browser for a part of the test.
func (b *Browser) On(t testing.TB) *Browser {
	part := &Browser{Ctx: b.Ctx, t: t}
	ctx, cancel := context.WithCancel(b.Ctx)
	t.Cleanup(cancel)
	chromedp.ListenTarget(ctx, part.listen)
	return part
}

func (b *Browser) listen(event any) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			b.Complain(fmt.Sprintf("console: %s", e.Args[0].Value))
		}
	case *runtime.EventExceptionThrown:
		b.Complain(e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		b.Complain(strings.TrimSpace(e.Entry.Text + " " + e.Entry.URL))
	}
}

// Complain adds a complaint.
func (b *Browser) Complain(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, text)
}

// Quiet checks that the browser has complained about nothing, except with texts that are expected.
func (b *Browser) Quiet(expected ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, complaint := range b.complaints {
		known := false
		for _, text := range expected {
			known = known || strings.Contains(complaint, text)
		}
		if !known {
			b.t.Errorf("the browser complains: %s", complaint)
		}
	}
}

// Does plays steps, each of which waits until it is possible.
func (b *Browser) Does(what string, steps ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, Patience)
	defer cancel()
	if err := chromedp.Run(ctx, steps...); err != nil {
		shown := ""
		_ = chromedp.Run(b.Ctx, chromedp.Text("body", &shown))      // for the message only
		b.t.Fatalf("the page shows:\n%s\n%s: %v", shown, what, err) // the page is long: what failed is at the end
	}
}

// Picture writes a screenshot into a directory, if one is named. It shows the page as in a window of that height.
func (b *Browser) Picture(directory, name string, height int64) {
	b.t.Helper()
	if directory == "" {
		return
	}
	var data []byte
	shot := chromedp.ActionFunc(func(ctx context.Context) (err error) {
		data, err = page.CaptureScreenshot().WithOptimizeForSpeed(false).Do(ctx)
		return err
	})
	b.Does("a screenshot", emulation.SetDeviceMetricsOverride(width, height, 1, false), shot, emulation.ClearDeviceMetricsOverride())
	if err := os.WriteFile(filepath.Join(directory, name+".png"), data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// Until waits until an expression of JavaScript is true, and names it if it never is. If another document is loaded meanwhile, it looks at that one.
func Until(expression string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		pace := time.NewTicker(look)
		defer pace.Stop()
		for {
			met := false
			err := chromedp.Evaluate("!!("+expression+")", &met).Do(ctx)
			if err == nil && met {
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting for %s: %w", expression, errors.Join(ctx.Err(), err))
			case <-pace.C:
			}
		}
	})
}

// Find is an expression for the first element of a selector.
func Find(selector string) string { return fmt.Sprintf("document.querySelector(%q)", selector) }

// Count is an expression for the number of elements of a selector.
func Count(selector string) string {
	return fmt.Sprintf("document.querySelectorAll(%q).length", selector)
}

// Named is an expression for the button with a text, of those of a selector.
func Named(selector, text string) string {
	return fmt.Sprintf("[...document.querySelectorAll(%q)].find((b) => b.innerText === %q)", selector, text)
}

// Press waits until an element is there and enabled, and clicks it. A click of the mouse goes to a place: while the page grows above the element, it misses.
func Press(element string) chromedp.Action {
	return Until(`((e) => !!e && !e.disabled && (e.click(), true))(` + element + `)`)
}

// Enter replaces the text of an input, and the page gets the same events as when a user types.
func Enter(selector, text string) chromedp.Action {
	return Until(fmt.Sprintf(`((e) => !!e && (e.focus(), e.select(), document.execCommand("insertText", false, %q), e.value === %[1]q))(%s)`, text, Find(selector)))
}
