// SPDX-License-Identifier: Apache-2.0

// Package integration tests what a user of DaemonSets sees, on a real control plane with simulated nodes.
//
// One plane serves all tests of a run; each test has its own namespace and nodes (package harness). The environment
// chooses the controller under test, so that the same tests show that upstream's controller behaves the same; what is
// better than upstream is skipped there, with the reason.
//
//	go test ./integration -run TestSmoke     the smoke test, about a minute
//	go test ./integration -timeout 20m       everything, including the long proofs (roll of 200 nodes, killed managers)
package integration

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"everynode.dev/everynode/test/harness"
)

// firstNodes is how many nodes the plane starts with; tests that want more add them.
const firstNodes = 24

// shared is the plane of this run. It is started by the first test that asks for it and stopped by TestMain.
var shared struct {
	once    sync.Once
	cluster *harness.Cluster
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Stop(code != 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// cluster is the plane that the tests share.
func cluster(t *testing.T) *harness.Cluster {
	t.Helper()
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		controller, err := harness.ControllerUnderTest()
		if err != nil {
			shared.err = err
			return
		}
		shared.cluster, shared.err = harness.Start(ctx, harness.Options{Nodes: firstNodes, Controller: controller})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// onlyEverynode skips a test of something that upstream's controller does not do.
func onlyEverynode(t *testing.T, c *harness.Cluster, why string) {
	t.Helper()
	if c.Controller != harness.Everynode {
		t.Skipf("SKIPPED: %s; run without EVERYNODE_E2E_CONTROLLER=%s", why, c.Controller)
	}
}

// long skips a long proof in a short run.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: this takes minutes; run without -short (make test-all)")
	}
}
