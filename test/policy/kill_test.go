// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
)

const (
	// kills is how often the manager is killed.
	kills = 10
	// life is the longest time between the first decision of a manager and its end: enough for a soak and for a part of a wave.
	life = 6 * time.Second
)

// TestKilledManager: the manager is killed at random moments of soaks and waves. Nothing is released early, and every rollout ends.
func TestKilledManager(t *testing.T) {
	from := *seed
	if from == 0 {
		from = rand.Uint64()
	}
	t.Logf("the moments follow from -seed %d", from)
	random := rand.New(rand.NewPCG(from, 0)) //nolint:gosec // a test that can be repeated
	s := newStage(t, native(), smallNodes)
	waves := threeWaves{canary: 4 * time.Second, part: 3 * time.Second, percent: 50, start: 20}
	s.govern("  pace: {minTimeBetween: 500ms}" + waves.spec()) // so that waves take as long as soaks
	steps := waves.manual(s)
	images := []string{harness.Image2, harness.Image3, harness.Image}
	for killed, rollouts := 0, 0; killed < kills; rollouts++ {
		s.update(images[rollouts%len(images)])
		for killed < kills && s.liveFor(time.Duration(random.Int64N(int64(life)))) {
			st := s.status()
			s.Cluster.Kill(t, harness.ManagerComponent)
			killed++
			t.Logf("killed in phase %s of wave %s", st.Phase, st.Wave)
			s.restart()
		}
		h := s.finish()
		for _, wrong := range h.judge(steps) {
			t.Errorf("rollout %d: %s", rollouts+1, wrong)
		}
	}
}

// liveFor waits for that long, and reports whether the rollout is still active.
func (s *stage) liveFor(d time.Duration) bool {
	s.t.Helper()
	ends := time.Now().Add(d)
	active := true
	s.Poll("the moment comes, or the rollout ends", func() error {
		active = s.status().Phase != v1alpha1.PhaseComplete
		if active && time.Now().Before(ends) {
			return errors.New("not yet")
		}
		return nil
	})
	return active
}

// readCluster is what a new leader logs before its first decision.
const readCluster = "Read the cluster"

// restart starts the manager, and waits until it leads and decides.
func (s *stage) restart() {
	s.t.Helper()
	said := strings.Count(s.Cluster.Log(harness.ManagerComponent), readCluster)
	s.Cluster.StartComponent(s.t, harness.ManagerComponent)
	s.Poll("the manager has read the cluster", func() error {
		if strings.Count(s.Cluster.Log(harness.ManagerComponent), readCluster) == said {
			return errors.New("it has not logged that")
		}
		return nil
	})
}
