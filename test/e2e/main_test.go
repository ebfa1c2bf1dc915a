// SPDX-License-Identifier: Apache-2.0

// Package e2e tests on real nodes, with kubelet, containerd and kube-proxy, what Everynode promises about pods: native and Advanced
// DaemonSets, the dialect of OpenYurt, and the agent of the node, all of them on one plane with three nodes.
//
// Vocabulary:
//
//	application  what runs in the pods (package testapp); it answers who it is
//	journal      a file on a node to which each run of the application appends when it starts and stops; it is read from outside
//	client       a process inside a node that asks the application 20 times a second, and keeps what it was answered
//	roll         a change of the image of a set until all pods have it
//
// The rule: what ran is read in the journals, what was answered from the clients, what was pulled in the log of the registry, and what
// the API server has shown from its watch; never from what a controller says of itself. The tests play one after the other, each in a
// namespace of its own with all nodes.
//
//	go test ./e2e -run TestSmoke             less than a minute
//	go test ./e2e -run TestFaults/native     one of the others
package e2e

import (
	"os"
	"testing"
	"time"

	"everynode.dev/everynode/internal/features"
	"everynode.dev/everynode/test/harness"
)

const (
	// count is how many nodes there are.
	count = 3
	// grace is how long a node may be silent before it is NotReady.
	grace = 8 * time.Second
)

var shared = harness.Shared{Options: func() (harness.Options, error) {
	return harness.Options{
		RealNodes: count, Controller: harness.Everynode, Advanced: true, Edge: true, Grace: grace,
		ManagerArgs: []string{"--feature-gates=" + string(features.PreDownloadImageForDaemonSetUpdate) + "=true"},
	}, nil
}}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }
