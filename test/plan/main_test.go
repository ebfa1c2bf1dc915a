// SPDX-License-Identifier: Apache-2.0

// Package plan holds plans against what then happens: `kubectl everynode plan` says for every node of a control plane with simulated nodes
// what would become of it, `apply` carries exactly that out, and the watch of the API server tells what became of it.
//
// Vocabulary: a change is an edit of a daemon set with what comes before it; its stage is a namespace and some nodes of its own; the log is
// every version of every pod in the namespace, in the order in which the API server stored them.
//
// The rule: the plan is read from its JSON, as a program would, and judged by the log alone.
//
//	go test ./plan -run TestSmoke            three changes on 8 nodes
//	go test ./plan -run TestChanges/surge    one of those on 100 nodes
package plan

import (
	"os"
	"testing"
	"time"

	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/harness"
)

const (
	// stageNodes is how many nodes a change is made on, smokeNodes in a smoke test.
	stageNodes = 100
	smokeNodes = 8
	// grace is how long a node may be silent before it is NotReady.
	grace = 12 * time.Second
)

// shared is the plane of this run.
var shared = harness.Shared{Options: func() (harness.Options, error) {
	o := harness.Options{Nodes: smokeNodes, Controller: harness.Everynode, Advanced: true, Edge: true, Sim: quick(), Grace: grace}
	if *estimateNodes > stageNodes {
		o.Nodes, o.Grace = *estimateNodes, 0 // so that the heartbeats of thousands of nodes are no load
	}
	return o, nil
}}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// quick is a profile whose delays can be seen and not felt.
func quick() *simkubelet.Profile {
	p := simkubelet.Realistic()
	p.ImagePull, p.ContainerStart, p.ContainerReady = 200*time.Millisecond, 50*time.Millisecond, 150*time.Millisecond
	p.ContainerStop, p.PodStop, p.InitRun = 100*time.Millisecond, 200*time.Millisecond, 50*time.Millisecond
	return &p
}

// TestSmokePlan is one change of each kind of update.
func TestSmokePlan(t *testing.T) {
	smoke := map[string]bool{"image": true, "in-place": true, "partition": true}
	for _, c := range changes() {
		if smoke[c.name] {
			t.Run(c.name, func(t *testing.T) { c.play(t, smokeNodes) })
		}
	}
}

// TestChanges are all changes, one after the other on the same nodes.
func TestChanges(t *testing.T) {
	for _, c := range changes() {
		t.Run(c.name, func(t *testing.T) { c.play(t, stageNodes) })
	}
}
