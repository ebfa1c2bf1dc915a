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
	"os"
	"testing"

	"everynode.dev/everynode/test/harness"
)

// firstNodes is how many nodes the plane starts with; tests that want more add them.
const firstNodes = 24

// shared is the plane of this run.
var shared = harness.Shared{Options: func() (harness.Options, error) {
	controller, err := harness.ControllerUnderTest()
	return harness.Options{Nodes: firstNodes, Controller: controller, ManagerArgs: []string{"--metrics-per-set"}}, err
}}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// cluster is the plane that the tests share.
func cluster(t *testing.T) *harness.Cluster {
	t.Helper()
	return shared.Cluster(t)
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
