// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/status"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// A picture that stands still because nobody sends news any more says so, and says when that is over.
func TestWatchTellsOfALostConnection(t *testing.T) {
	cluster := fakecluster.New(t, fakecluster.Roll{Name: "agent", Letters: "uu"}.Objects(t)...)
	first := watch.NewRaceFreeFake()
	var opened, down atomic.Bool
	cluster.Kubernetes.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) {
		switch {
		case down.Load():
			return true, nil, &url.Error{Op: "Get", URL: "https://192.0.2.1/api/v1/nodes", Err: syscall.ECONNREFUSED}
		case opened.CompareAndSwap(false, true):
			return true, first, nil
		default:
			return false, nil, nil
		}
	})
	reader, writer := io.Pipe()
	defer reader.Close()
	cluster.Options.Out = writer
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		err := cluster.RunUntil(ctx, status.New, "agent", "-w")
		writer.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(reader)
	await := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("it ended without %q", text)
	}
	await("2/2 updated")
	down.Store(true)
	first.Stop()
	await("connection lost, reconnecting since 12:00:00: connection refused")
	down.Store(false)
	await("reconnected at 12:00:00")
	stop()
	if _, err := io.Copy(io.Discard, reader); err != nil { // it may still have something to say
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Ctrl-C is no failure: %v", err)
	}
}
