// SPDX-License-Identifier: Apache-2.0

// Package advanced tests what a user of Advanced DaemonSets (apps.kruise.io) sees, on a real control plane with simulated nodes.
//
// Vocabulary: a scenario is one story, told by applying YAML with kubectl and watching what happens; its stage is a namespace
// and some nodes of its own; a fragment is a piece of YAML that is merged into the scenario's manifest before it is applied.
//
// The rule: a recorder (package observe) watches each scenario from before its first manifest is applied, and judges every event.
// That nothing happens is never shown by waiting for a while, but by a status that says why nothing happens.
//
//	go test ./advanced -run TestSmoke                 eleven of the scenarios, about a minute
//	go test ./advanced -parallel 12 -timeout 12m      all of them
//	go test ./advanced -run TestScenarios/NAME        one of them
package advanced

import (
	"os"
	"testing"
	"time"

	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/harness"
)

// firstNodes is how many nodes the plane starts with; scenarios that want more add them.
const firstNodes = 40

// grace is how long a node may be silent before it is NotReady.
const grace = 12 * time.Second

// shared is the plane of this run.
var shared = harness.Shared{Options: func() (harness.Options, error) {
	o := options(1)
	o.ManagerArgs = append(o.ManagerArgs, "--come-back-first-namespaces="+comeBackFirst)
	o.BoundByHand = []string{harness.RoleName("ClusterRole", "", comeBackRole)}
	return o, nil
}}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// cluster is the plane that the scenarios share.
func cluster(t *testing.T) *harness.Cluster {
	t.Helper()
	c := shared.Cluster(t)
	bindComeBack(t, c)
	return c
}

func options(managers int) harness.Options {
	return harness.Options{
		Nodes: firstNodes, Controller: harness.Everynode, Advanced: true, Managers: managers, Sim: quick(), Grace: grace,
		ManagerArgs: []string{"--metrics-per-set"},
	}
}

// quick is a profile whose delays can be seen and not felt: there are many scenarios.
func quick() *simkubelet.Profile {
	p := simkubelet.Realistic()
	p.ImagePull, p.ContainerStart, p.ContainerReady = 200*time.Millisecond, 50*time.Millisecond, 150*time.Millisecond
	p.ContainerStop, p.PodStop, p.InitRun = 100*time.Millisecond, 200*time.Millisecond, 50*time.Millisecond
	return &p
}
