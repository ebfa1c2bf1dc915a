// SPDX-License-Identifier: Apache-2.0

// Package edge tests the dialect of OpenYurt on real control planes with simulated nodes that are cut and healed: DaemonSets of apps/v1 with
// the annotations AdvancedRollingUpdate and OTA.
//
// Vocabulary: a site is a plane with who keeps the pods on it. Beside native Everynode does, and reads the annotations as well; beside
// upstream kube-controller-manager's own controller does, and Everynode is its external.
//
// The rule: how far a roll may go is judged from the API server's watch, outside of the controller (observe.JudgeEdge), and what holds at
// one site holds at the other.
//
//	go test ./edge -run TestSmoke                       a few nodes, beside upstream
//	go test ./edge -run TestNextToUpstream/OTA          one of the others
package edge

import (
	"testing"
	"time"

	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/harness"
)

// Keys and values, as a user writes them.
const (
	strategyKey = "apps.openyurt.io/update-strategy"
	limitKey    = "apps.openyurt.io/max-unavailable"
	blameKey    = "everynode.dev/failure-attribution-window"
	advanced    = "AdvancedRollingUpdate"
	ota         = "OTA"
	set         = "ds"
)

const (
	siteNodes = 200
	// grace is how long a node is silent before it is not ready.
	grace = 12 * time.Second
)

// TestNextToNative and TestNextToUpstream play the same.
func TestNextToNative(t *testing.T) { play(t, harness.Everynode) }

// TestNextToUpstream is the dialect as an external set.
func TestNextToUpstream(t *testing.T) { play(t, harness.Native) }

func play(t *testing.T, keeper harness.Controller) {
	c := site(t, keeper, siteNodes)
	t.Run("CutBeforeAndLongAfter", func(t *testing.T) { cutBeforeAndLongAfter(t, c) })
	t.Run("DownAfterTheUpdate", func(t *testing.T) { downAfterTheUpdate(t, c) })
	t.Run("BadImage", func(t *testing.T) { badImage(t, c) })
	t.Run("FatalVersions", func(t *testing.T) { fatalVersions(t, c) })
	t.Run("Neighbours", func(t *testing.T) { neighbours(t, c) })
	t.Run("OTA", func(t *testing.T) { tellsPods(t, c) })
	t.Run("Values", func(t *testing.T) { values(t, c) })
	t.Run("YurtManagerAtWork", func(t *testing.T) { yurtManagerAtWork(t, c) })
}

// site is a plane of its own.
func site(t *testing.T, keeper harness.Controller, nodes int) *harness.Cluster {
	t.Helper()
	return harness.Own(t, harness.Options{
		Nodes: nodes, Controller: keeper, Edge: true, Sim: quick(), Grace: grace, ManagerArgs: []string{"--metrics-per-set"},
	})
}

// quick is a profile whose delays can be seen and not felt.
func quick() *simkubelet.Profile {
	p := simkubelet.Realistic()
	p.ImagePull, p.ContainerStart, p.ContainerReady = 300*time.Millisecond, 100*time.Millisecond, 200*time.Millisecond
	p.ContainerStop, p.PodStop, p.InitRun = 100*time.Millisecond, 200*time.Millisecond, 50*time.Millisecond
	return &p
}
