// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
)

// reports are those that an API server gets: how many of each node, and how many at each moment.
type reports struct {
	mu    sync.Mutex
	nodes map[string]int
	at    map[time.Time]int
}

func (r *reports) note(action clienttesting.Action) (bool, runtime.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[action.(clienttesting.PatchAction).GetName()]++
	r.at[time.Now()]++
	return true, &v1.Node{}, nil
}

// take is what there was since the last time.
func (r *reports) take() (nodes map[string]int, at map[time.Time]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes, at = r.nodes, r.at
	r.nodes, r.at = map[string]int{}, map[time.Time]int{}
	return nodes, at
}

// TestNodesReportInTurns: whatever the period, each node that has something to report does so exactly once in it, and if the period has room for
// turns, about as many do so in each.
func TestNodesReportInTurns(t *testing.T) {
	const nodes = 1000
	for period, turns := range map[time.Duration]int{10 * time.Second: reportTurns, time.Second: 10, 0: 1} {
		t.Run(period.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playTurns(t, nodes, turns, period) })
		})
	}
}

func playTurns(t *testing.T, nodes, turns int, period time.Duration) {
	client, sent := fake.NewClientset(), &reports{nodes: map[string]int{}, at: map[time.Time]int{}}
	client.PrependReactor("patch", "nodes", sent.note)
	profile := steady()
	profile.ImageReport = period
	k, err := New(Options{Client: client, Profile: profile, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer k.queue.ShutDown()
	for i := range nodes {
		if err := k.nodes.GetStore().Add(testNode(fmt.Sprintf("node-%05d", i), i > 0, true)); err != nil { // the first one is away
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.reportImages(ctx) })
	time.Sleep(time.Millisecond) // so that no period ends where a turn comes
	for round, image := range []string{"a:1", "b:1", ""} {
		for i := range nodes {
			if image != "" {
				k.nodeState(testNode(fmt.Sprintf("node-%05d", i), true, true)).images.Pull(image, time.Now(), 0)
			}
		}
		time.Sleep(max(period, minImageReport))
		synctest.Wait()
		told, at := sent.take()
		want := nodes - 1
		if image == "" {
			want = 0
		}
		if often := slices.Sorted(maps.Values(told)); len(often) != want || want > 0 && often[len(often)-1] != 1 {
			t.Errorf("round %d: %d nodes have reported, want %d, and each once: %v", round, len(often), want, often)
		}
		if want == 0 {
			continue
		}
		if len(at) != turns {
			t.Errorf("round %d: they came at %d moments, want %d", round, len(at), turns)
		}
		for when, n := range at {
			if n < nodes/turns/4 || n > nodes/turns*4 {
				t.Errorf("round %d: %d of %d reports came at %v", round, n, nodes, when)
			}
		}
	}
	cancel()
	running.Wait()
}
