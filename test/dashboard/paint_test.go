// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/cli/command"
	cli "everynode.dev/everynode/internal/cli/dashboard"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
	"everynode.dev/everynode/test/report"
)

// changesPerSecond is how many pods change in a second while the stream is measured.
const changesPerSecond = 100

// painted notes when the picture has been drawn first, in milliseconds after the navigation began.
const painted = `new MutationObserver((_, o) => document.querySelector(".picture") && (o.disconnect(), requestAnimationFrame(() => requestAnimationFrame(() => window.paintedAt = performance.now())))).observe(document, {childList: true, subtree: true})`

// countFrames counts the frames from now on. A frame is due every 16.7 ms: if the next one comes later, those in between were dropped.
const countFrames = `window.counted = {due: 0, dropped: 0, longest: 0}; ((last, counted) => requestAnimationFrame(function next(now) {
	if (counted !== window.counted) return;
	if (last) {
		const due = Math.max(1, Math.round((now - last) * 60 / 1000));
		counted.due += due, counted.dropped += due - 1, counted.longest = Math.max(counted.longest, now - last);
	}
	last = now;
	requestAnimationFrame(next);
}))(0, window.counted)`

// frames are what was counted; Longest is in milliseconds.
type frames struct{ Due, Dropped, Longest float64 }

// docs is the directory whose dashboard.md TestMeasure writes its figures into: make bench-page.
var docs = flag.String("docs", "", "measure at full size, and write what comes out into the documents of this directory")

// figures are what is measured of a page: times in milliseconds, sizes in KiB, dropped in percent of the frames that were due.
// rest are the frames dropped in the same run while nothing changes: that is the share of the machine.
type figures struct{ first, picture, page, rate, changes, computed, dropped, rest, longest float64 }

// measurement is everything that is measured.
type measurement struct {
	rounds int
	during time.Duration
	load   string
	sizes  []int
	runs   map[int][]figures
}

// TestMeasure measures the page of a set in the browser: when it has painted anything, when it has drawn the picture, how much it has received until then, and, while pods
// change, how much it receives, how much it computes and how many frames it drops. The cluster is imaginary, so nothing but the dashboard and the browser takes time. Without
// -docs it does so once, in a short time, and nothing is judged that depends on the machine.
func TestMeasure(t *testing.T) {
	m := measurement{rounds: 1, during: time.Second, sizes: []int{1000}, runs: map[int][]figures{}}
	if *docs != "" {
		m.rounds, m.during, m.sizes = 5, 10*time.Second, []int{1000, 10_000}
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.load, _, _ = strings.Cut(string(load), " ")
	}
	for range m.rounds {
		for _, cells := range m.sizes {
			t.Run(fmt.Sprintf("cells=%d", cells), func(t *testing.T) {
				f := measurePage(t, cells, m.during)
				m.runs[cells] = append(m.runs[cells], f)
				t.Logf("%+v", f)
			})
		}
	}
	if t.Failed() || len(m.runs) < len(m.sizes) {
		return
	}
	t.Log("\n" + m.section())
	if err := m.judgeWork(); err != nil {
		t.Error(err)
	}
	if *docs == "" {
		return
	}
	if err := errors.Join(m.judge(), m.write(*docs)); err != nil {
		t.Error(err)
	}
}

// median returns the median of a figure, and the greatest.
func (m *measurement) median(cells int, of func(figures) float64) (median, most float64) {
	var all []float64
	for _, f := range m.runs[cells] {
		all = append(all, of(f))
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)-1]
}

// judge compares with the goals of the page.
func (m *measurement) judge() (err error) {
	if first, _ := m.median(1000, func(f figures) float64 { return f.first }); first >= 1000 {
		err = fmt.Errorf("with 1,000 nodes the first paint takes %.0f ms, and may take a second", first)
	}
	for _, cells := range m.sizes {
		if rate, _ := m.median(cells, func(f figures) float64 { return f.rate }); rate >= 200 {
			err = errors.Join(err, fmt.Errorf("with %d nodes the page receives %.0f KiB in a second, and may receive 200", cells, rate))
		}
		// Frames that are late while nothing changes are late because of the machine.
		if more, _ := m.median(cells, func(f figures) float64 { return f.dropped - f.rest }); more >= mostDropped {
			err = errors.Join(err, fmt.Errorf("with %d nodes %.1f%% more of the frames are dropped while pods change than while nothing changes, and %d%% may be", cells, more, mostDropped))
		}
	}
	return err
}

const (
	// mostDropped is how many percent of the frames may be dropped because of the page.
	mostDropped = 5
	// mostWork is for how many milliseconds of a second the page may compute: then half of the time of each frame is left. Time in which it waits for a processor does not count, so
	// this is judged on any machine.
	mostWork = 500
)

// judgeWork compares the work of the page with what leaves time for frames.
func (m *measurement) judgeWork() (err error) {
	for _, cells := range m.sizes {
		if work, _ := m.median(cells, func(f figures) float64 { return f.computed }); work >= mostWork {
			err = errors.Join(err, fmt.Errorf("with %d nodes the page computes for %.0f ms of a second, and may for %d: frames are dropped", cells, work, mostWork))
		}
	}
	return err
}

// TestFramesAreJudged: a page that drops frames, or computes too long to draw them, is not accepted; frames that the machine drops are no fault of the page.
func TestFramesAreJudged(t *testing.T) {
	for name, test := range map[string]struct {
		of              figures
		drops, computes bool
	}{
		"a good page":          {figures{dropped: 2, rest: 1, computed: 80}, false, false},
		"a loaded machine":     {figures{dropped: 40, rest: 38, computed: 80}, false, false},
		"a page that drops":    {figures{dropped: 12, rest: 1, computed: 80}, true, false},
		"a page that computes": {figures{dropped: 2, rest: 1, computed: 700}, false, true},
	} {
		m := measurement{sizes: []int{1000}, runs: map[int][]figures{1000: {test.of}}}
		if err := m.judge(); (err != nil) != test.drops {
			t.Errorf("%s: its frames are judged with %v", name, err)
		}
		if err := m.judgeWork(); (err != nil) != test.computes {
			t.Errorf("%s: its work is judged with %v", name, err)
		}
	}
}

// section is what the page about the dashboard has of it.
func (m *measurement) section() string {
	table := report.Table{Words: 1, Head: []string{""}}
	for _, cells := range m.sizes {
		table.Head = append(table.Head, fmt.Sprintf("%d,000 nodes", cells/1000))
	}
	row := func(name, format string, of func(figures) float64) {
		cells := []string{name}
		for _, size := range m.sizes {
			median, most := m.median(size, of)
			text := fmt.Sprintf(format, median)
			if greatest := fmt.Sprintf(format, most); strings.Contains(name, "greatest") {
				text += "; " + greatest
			}
			cells = append(cells, text)
		}
		table.Rows = append(table.Rows, cells)
	}
	row("first paint of the page of a set", "%.0f ms", func(f figures) float64 { return f.first })
	row("the picture is drawn", "%.0f ms", func(f figures) float64 { return f.picture })
	row("received until then", "%.0f KiB", func(f figures) float64 { return f.page })
	row("pods that change in a second, from then on", "%.0f", func(f figures) float64 { return f.changes })
	row("received in a second", "%.0f KiB", func(f figures) float64 { return f.rate })
	row("time of the processor for the page, in a second", "%.0f ms", func(f figures) float64 { return f.computed })
	row("frames dropped, of 60 in a second: median; greatest", "%.1f%%", func(f figures) float64 { return f.dropped })
	row("longest time between two frames: median; greatest", "%.0f ms", func(f figures) float64 { return f.longest })
	return table.Markdown() + fmt.Sprintf(`
Medians of %d runs of %.0f seconds on %d cores, in a headless Chromium on the same machine, with an imaginary cluster. The load of the machine was %s before: programs that
compute at the same time make frames late.
`, m.rounds, m.during.Seconds(), runtime.NumCPU(), cmp.Or(m.load, "not known"))
}

// write puts the section into dashboard.md.
func (m *measurement) write(dir string) error {
	page := filepath.Join(dir, "dashboard.md")
	document, err := os.ReadFile(page)
	if err == nil {
		document, err = report.Replace(document, "measured", m.section())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, document, 0o644)
}

func measurePage(t *testing.T, cells int, during time.Duration) (f figures) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cluster := fakecluster.New(t, fakecluster.Roll{Name: set, Advanced: true, Letters: strings.Repeat("u", cells)}.Objects(t)...)
	watched := cluster.Watched("pods")
	address := serve(ctx, t, cluster)
	<-watched
	w := browse(t)
	var received atomic.Int64
	chromedp.ListenTarget(w.Ctx, func(event any) {
		if e, ok := event.(*network.EventDataReceived); ok {
			received.Add(e.DataLength)
		}
	})
	w.Does("the session", network.Enable(), chromedp.Navigate(address), chromedp.WaitVisible("table.sets a"), chromedp.Navigate("about:blank"),
		chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(painted).Do(ctx)
			return err
		}))
	received.Store(0)
	base, _, _ := strings.Cut(address, "#")
	w.Does("the picture", chromedp.Navigate(base+"#/set/default/ads/"+set), chrome.Until(`window.paintedAt > 0 && [...document.querySelectorAll("[role=status]")].some((e) => e.innerText === "`+fmt.Sprint(cells)+` nodes")`),
		chromedp.Evaluate(`performance.getEntriesByName("first-contentful-paint")[0].startTime`, &f.first), chromedp.Evaluate(`window.paintedAt`, &f.picture))
	f.page = float64(received.Load()) / 1024
	received.Store(0)
	var rest frames
	w.Does("frames at rest", chromedp.Evaluate(countFrames, nil), chrome.Until(fmt.Sprintf("counted.due >= %d", int(60*during.Seconds()))), chromedp.Evaluate(`counted`, &rest))
	received.Store(0)
	w.Does("counting frames", performance.Enable().WithTimeDomain(performance.EnableTimeDomainThreadTicks), chromedp.Evaluate(countFrames, nil))
	computed := w.computed()
	begun := time.Now()
	changed := changePods(t, cluster, cells, during)
	seconds := time.Since(begun).Seconds()
	f.rate, f.changes = float64(received.Load())/1024/seconds, float64(changed)/seconds
	var counted frames
	w.Does("the frames", chromedp.Evaluate(`counted`, &counted))
	if counted.Due == 0 || f.page == 0 {
		t.Fatalf("the browser has drawn %.0f frames, and received %.0f KiB", counted.Due, f.page)
	}
	f.rest = 100 * rest.Dropped / rest.Due
	f.computed, f.dropped, f.longest = 1000*(w.computed()-computed)/time.Since(begun).Seconds(), 100*counted.Dropped/counted.Due, counted.Longest
	return f
}

// computed is for how many seconds the main thread of the page has computed. Time in which it waited for a processor does not count.
func (b *browser) computed() (seconds float64) {
	b.t.Helper()
	b.Does("the time that the page has computed", chromedp.ActionFunc(func(ctx context.Context) error {
		all, err := performance.GetMetrics().Do(ctx)
		for _, m := range all {
			if m.Name == "TaskDuration" {
				seconds = m.Value
			}
		}
		return err
	}))
	return seconds
}

// serve runs the dashboard for a cluster, and returns its URL.
func serve(ctx context.Context, b testing.TB, cluster *fakecluster.Cluster) string {
	b.Helper()
	out, in := io.Pipe()
	cluster.Options.Out = in
	program := func(o *options.Options) *cobra.Command {
		return cli.New(o, command.Root)
	}
	go func() {
		_ = in.CloseWithError(cluster.RunUntil(ctx, program, "--listen", "127.0.0.1:0", "--open=false"))
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// changePods makes pods unready, one after the other, and returns how many.
func changePods(b testing.TB, cluster *fakecluster.Cluster, cells int, during time.Duration) (changed int) {
	b.Helper()
	pods := cluster.Kubernetes.CoreV1().Pods("default")
	pace := time.NewTicker(time.Second / changesPerSecond)
	defer pace.Stop()
	for end := time.After(during); ; changed++ {
		select {
		case <-end:
			return changed
		case <-pace.C:
		}
		name := fmt.Sprintf("%s-node-%d-%s", set, changed%cells+1, fakecluster.NewHash[:3])
		pod, err := pods.Get(b.Context(), name, metav1.GetOptions{})
		if err != nil {
			b.Fatal(err)
		}
		pod.ResourceVersion, pod.Status.Conditions[0].Status = fmt.Sprint(100+changed), corev1.ConditionFalse
		if changed/cells%2 == 1 {
			pod.Status.Conditions[0].Status = corev1.ConditionTrue
		}
		if _, err := pods.UpdateStatus(b.Context(), pod, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
