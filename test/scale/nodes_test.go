// SPDX-License-Identifier: Apache-2.0

// Package scale tests what a plane promises about its size. It takes the whole machine, so nothing else should run beside it.
package scale

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/test/harness"
)

const (
	manyNodes = 1000
	// promised is the time from the line "ready" of `localplane up` until all nodes are Ready, on two cores.
	promised = 30 * time.Second
)

// TestThousandNodesAreReadyInTime starts a plane as `localplane up --nodes 1000` does.
func TestThousandNodesAreReadyInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: this takes a minute and the whole machine; run without -short (make test SUITE=scale)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	began := time.Now()
	plane, err := localplane.Start(ctx, localplane.Options{
		Dir: filepath.Join(t.TempDir(), "plane"), Nodes: manyNodes,
		Programs: localplane.Programs{
			Localplane: filepath.Join(harness.BinDir(), "localplane"),
			Manager:    filepath.Join(harness.BinDir(), "everynode-manager"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ready := time.Now()
	t.Cleanup(func() {
		if err := harness.StopPlane(context.Background(), plane); err != nil {
			t.Error(err)
		}
	})
	t.Logf("the plane was ready after %s", ready.Sub(began).Round(time.Millisecond))
	count := awaitNodes(ctx, t, plane, ready.Add(2*promised))
	took := time.Since(ready)
	t.Logf("%d nodes were Ready %s later", count.Ready, took.Round(time.Millisecond))
	if took > promised {
		t.Errorf("it took %s until %d of %d nodes were Ready, want at most %s", took, count.Ready, manyNodes, promised)
	}
}

// awaitNodes returns when all nodes are Ready, or at the deadline.
func awaitNodes(ctx context.Context, t *testing.T, plane *localplane.Plane, deadline time.Time) localplane.NodeCount {
	t.Helper()
	tick := time.NewTicker(500 * time.Millisecond) // each look lists 1,000 nodes
	defer tick.Stop()
	for {
		var count localplane.NodeCount
		status, err := plane.Status(ctx)
		switch {
		case err != nil:
			t.Fatal(err)
		case status.Nodes == nil:
			t.Logf("counting nodes: %s", status.NodesError)
		default:
			count = *status.Nodes
		}
		if count.Ready == manyNodes || time.Now().After(deadline) {
			return count
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
}
