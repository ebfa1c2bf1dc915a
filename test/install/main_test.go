// SPDX-License-Identifier: Apache-2.0

// Package install installs Everynode as a user does: a release is published to a registry, and Helm's own library pulls the chart from there, installs, tests, upgrades and
// uninstalls it, on a plane with three real nodes.
//
// Vocabulary: a workload is a daemon set of the test, native or Advanced; its runs are what its pods are and how often their containers have started.
//
// The rule: the pods of workloads are judged by what kubelets report of them. No installation, upgrade or removal may change their runs.
package install

import (
	"os"
	"testing"
	"time"

	"everynode.dev/everynode/test/harness"
)

const (
	// count is how many nodes there are.
	count = 3
	// patience is how long Helm may wait for what it has installed.
	patience = 3 * time.Minute
)

// The plane has no manager, so nobody looks after DaemonSets before the chart is installed.
var shared = harness.Shared{Options: func() (harness.Options, error) { return harness.Options{RealNodes: count}, nil }}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }
