// SPDX-License-Identifier: Apache-2.0

// Package migration tests what changes hands: sets of apps/v1 that become Advanced DaemonSets and back, sets that OpenKruise
// has made, and sets whose manager, or whose API server, dies in the middle.
//
// Vocabulary: a past is what another controller has left behind, made by hand from what package revision has recorded of it;
// a witness sees every pod of a namespace, whoever owns it, for at the moment of a change of hands nobody does.
//
// The rule: a change of hands is shown by the witness. It has to have seen no pod come, go or restart, and never two on a node.
//
//	go test ./migration -run TestSmoke                     a small migration and back
//	go test ./migration -run TestNativeToAdvanced          one migration, less than a minute
//	go test ./migration -parallel 2 -timeout 10m           everything, in about three minutes
//	go test ./migration -run TestChangesOfHands/Drained    one of the others
package migration

import (
	"os"
	"testing"
	"time"

	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/harness"
)

// TestChangesOfHands runs, one after the other, what needs the shared plane for itself: TestDeathsInMidRoll has one of its own,
// and runs beside them.
func TestChangesOfHands(t *testing.T) {
	t.Parallel()
	t.Run("OrphansOfKubernetes", orphansOfKubernetes)
	t.Run("BesideUpstream", besideUpstream)
	t.Run("BothAtOnce", bothAtOnce)
	t.Run("OpenkruiseAtWork", openkruiseAtWork)
	t.Run("TakenOver", takenOver)
	t.Run("Partway", partway)
	t.Run("Drained", drained)
}

// TestSmoke is one change of hands and back, on a few nodes.
func TestSmoke(t *testing.T) { partway(t) }

// allNodes is how many nodes the plane has. Recorded templates choose no nodes, so their sets run on all of them.
const allNodes = 50

// shared is the plane of this run.
var shared = harness.Shared{Options: func() (harness.Options, error) {
	return harness.Options{Nodes: allNodes, Controller: harness.Everynode, Advanced: true, Sim: quick()}, nil
}}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// cluster is the plane that the tests share.
func cluster(t *testing.T) *harness.Cluster {
	t.Helper()
	return shared.Cluster(t)
}

// quick is a profile whose delays can be seen and not felt.
func quick() *simkubelet.Profile {
	p := simkubelet.Realistic()
	p.ImagePull, p.ContainerStart, p.ContainerReady = 200*time.Millisecond, 50*time.Millisecond, 150*time.Millisecond
	p.ContainerStop, p.PodStop, p.InitRun = 100*time.Millisecond, 200*time.Millisecond, 50*time.Millisecond
	return &p
}
