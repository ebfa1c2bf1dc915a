// SPDX-License-Identifier: Apache-2.0

// Package policy tests rollout policies on a real control plane with simulated nodes: waves, soaks, approvals, windows and nodes that join, in all dialects.
//
// Vocabulary:
//   - a stage is a namespace with nodes in three zones and one daemon set;
//   - a history is when the update of each node began and when it was done, from the API server's watch of pods;
//   - a step is a set of nodes that may begin at the same time: a wave, or one step of a wave with growth;
//   - the manual is a second, simple computation of the steps, from the documentation of the fields.
//
// Rule: the plan is read as JSON before the rollout, and the history is judged by the plan and the manual. What the manager reports decides only how long a
// test waits.
//
//	go test ./policy -run TestSmoke                    three waves on 12 nodes
//	go test ./policy -run TestKilledManager -seed 7    the same random moments again
package policy

import (
	"flag"
	"os"
	"testing"
	"time"

	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/harness"
)

// seed selects the moments at which TestKilledManager kills the manager.
var seed = flag.Uint64("seed", 0, "the seed of the moments at which the manager is killed; 0: a new one, which the log shows")

// planeNodes is how many nodes the plane starts with; a stage adds those that it lacks.
const planeNodes = 20

// shared is the plane of this run. Its manager serves all dialects.
var shared = harness.Shared{Options: func() (harness.Options, error) {
	providers, err := judge.start()
	if err != nil {
		return harness.Options{}, err
	}
	targets, err := mail.start()
	if err != nil {
		return harness.Options{}, err
	}
	return harness.Options{
		Nodes: planeNodes, Controller: harness.Everynode, Advanced: true, Edge: true, Sim: quick(),
		ManagerArgs: []string{"--analysis-providers", providers, "--notification-targets", targets},
	}, nil
}}

// judge is the provider of analyses of that plane, and mail the target of its notifications.
var (
	judge webhook
	mail  inbox
)

func TestMain(m *testing.M) {
	code := shared.Run(m)
	judge.remove()
	mail.remove()
	os.Exit(code)
}

// quick returns delays that a watch can see.
func quick() *simkubelet.Profile {
	p := simkubelet.Realistic()
	p.ImagePull, p.ContainerStart, p.ContainerReady = 300*time.Millisecond, 100*time.Millisecond, 200*time.Millisecond
	p.ContainerStop, p.PodStop, p.InitRun = 100*time.Millisecond, 200*time.Millisecond, 50*time.Millisecond
	return &p
}
