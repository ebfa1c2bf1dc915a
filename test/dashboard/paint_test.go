// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"io"
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
)

const (
	// changesPerSecond is how many pods change in a second while the stream is measured, and measured for how long.
	changesPerSecond = 100
	measured         = 10 * time.Second
)

// painted notes when the picture has been drawn first, in milliseconds after the navigation began.
const painted = `new MutationObserver((_, o) => document.querySelector(".picture") && (o.disconnect(), requestAnimationFrame(() => requestAnimationFrame(() => window.paintedAt = performance.now())))).observe(document, {childList: true, subtree: true})`

// countFrames counts the frames from now on. A frame is due every 16.7 ms: if the next one comes later, those in between were dropped.
const countFrames = `window.counted = {due: 0, dropped: 0, longest: 0}; ((last) => requestAnimationFrame(function next(now) {
	if (last) {
		const due = Math.max(1, Math.round((now - last) * 60 / 1000));
		counted.due += due, counted.dropped += due - 1, counted.longest = Math.max(counted.longest, now - last);
	}
	last = now;
	requestAnimationFrame(next);
}))(0)`

// frames are what was counted; Longest is in milliseconds.
type frames struct{ Due, Dropped, Longest float64 }

// BenchmarkPage measures the page of a set in the browser: when it has painted anything, when it has drawn the picture, how much it has received until then, and, while pods
// change, how much it receives, how much it computes and how many frames it drops. The cluster is imaginary, so nothing but the dashboard and the browser takes time:
//
//	go test ./dashboard -run '^$' -bench BenchmarkPage -benchtime 1x -count 5
func BenchmarkPage(b *testing.B) {
	for _, cells := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("cells=%d", cells), func(b *testing.B) {
			for range b.N {
				measurePage(b, cells)
			}
		})
	}
}

func measurePage(b *testing.B, cells int) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	cluster := fakecluster.New(b, fakecluster.Roll{Name: set, Advanced: true, Letters: strings.Repeat("u", cells)}.Objects(b)...)
	watched := cluster.Watched("pods")
	address := serve(ctx, b, cluster)
	<-watched
	w := browse(b)
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
	var first, picture float64
	w.Does("the picture", chromedp.Navigate(base+"#/set/default/ads/"+set), chrome.Until(`window.paintedAt > 0 && [...document.querySelectorAll("[role=status]")].some((e) => e.innerText === "`+fmt.Sprint(cells)+` nodes")`),
		chromedp.Evaluate(`performance.getEntriesByName("first-contentful-paint")[0].startTime`, &first), chromedp.Evaluate(`window.paintedAt`, &picture))
	b.ReportMetric(first, "ms-first-paint")
	b.ReportMetric(picture, "ms-picture")
	b.ReportMetric(float64(received.Load())/1024, "KB-page")
	received.Store(0)
	w.Does("counting frames", performance.Enable().WithTimeDomain(performance.EnableTimeDomainThreadTicks), chromedp.Evaluate(countFrames, nil))
	computed := w.computed()
	begun := time.Now()
	changed := changePods(b, cluster, cells)
	b.ReportMetric(float64(received.Load())/1024/time.Since(begun).Seconds(), "KB/s")
	b.ReportMetric(float64(changed)/time.Since(begun).Seconds(), "changes/s")
	var counted frames
	w.Does("the frames", chromedp.Evaluate(`counted`, &counted))
	if counted.Due == 0 {
		b.Fatal("the browser has drawn no frame")
	}
	b.ReportMetric(1000*(w.computed()-computed)/time.Since(begun).Seconds(), "ms-computed/s")
	b.ReportMetric(100*counted.Dropped/counted.Due, "%-frames-dropped")
	b.ReportMetric(counted.Longest, "ms-longest-frame")
	b.ReportMetric(0, "ns/op") // how long all of it took says nothing
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
func changePods(b *testing.B, cluster *fakecluster.Cluster, cells int) (changed int) {
	b.Helper()
	pods := cluster.Kubernetes.CoreV1().Pods("default")
	pace := time.NewTicker(time.Second / changesPerSecond)
	defer pace.Stop()
	for end := time.After(measured); ; changed++ {
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
