// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"math/rand/v2"
	"slices"
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
	life = 12 * time.Second
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
	waves := threeWaves{canary: 6 * time.Second, part: 5 * time.Second, percent: 50, start: 20}
	s.govern("  pace: {minTimeBetween: 500ms}" + waves.spec()) // so that waves take as long as soaks
	steps := waves.manual(s)
	images := []string{harness.Image2, harness.Image3, harness.Image}
	phases := []v1alpha1.Phase{v1alpha1.PhaseSoaking, v1alpha1.PhaseRolling}
	for killed, rollouts := 0, 0; killed < kills; rollouts++ {
		s.update(images[rollouts%len(images)])
		var outages []outage
		for killed < kills && s.liveFor(time.Duration(random.Int64N(int64(life))), phases[killed%len(phases)]) {
			st := s.status()
			s.Cluster.Kill(t, harness.ManagerComponent)
			killed++
			o := outage{from: time.Now()}
			t.Logf("killed in phase %s of wave %s", st.Phase, st.Wave)
			o.to = s.restart()
			outages = append(outages, o)
			t.Logf("no manager decided for %s", o.to.Sub(o.from).Round(100*time.Millisecond))
		}
		h := s.finish()
		h.outages = outages
		for _, wrong := range h.judge(steps) {
			t.Errorf("rollout %d: %s", rollouts+1, wrong)
		}
	}
	s.sameLetters()
}

// liveFor waits for that long and then for a phase, and reports whether the rollout is still active.
func (s *stage) liveFor(d time.Duration, phase v1alpha1.Phase) bool {
	s.t.Helper()
	ends := time.Now().Add(d)
	active := true
	s.Poll("the moment and the phase "+string(phase)+" come, or the rollout ends", func() error {
		now := s.status().Phase
		active = now != v1alpha1.PhaseComplete
		if active && (now != phase || time.Now().Before(ends)) {
			return errors.New("not yet")
		}
		return nil
	})
	return active
}

// readCluster is what a new leader logs before its first decision.
const readCluster = "Read the cluster"

// restart starts the manager, and waits until it leads and decides. It returns the time that the log of the manager shows for that.
func (s *stage) restart() time.Time {
	s.t.Helper()
	log := func() []string { return strings.Split(s.Cluster.Log(harness.ManagerComponent), "\n") }
	said := strings.Count(strings.Join(log(), "\n"), readCluster)
	s.Cluster.StartComponent(s.t, harness.ManagerComponent)
	var line string
	s.Poll("the manager has read the cluster", func() error {
		lines := slices.DeleteFunc(log(), func(l string) bool { return !strings.Contains(l, readCluster) })
		if len(lines) <= said {
			return errors.New("it has not logged that")
		}
		line = lines[len(lines)-1]
		return nil
	})
	const layout = "0102 15:04:05.000000" // that of klog, which has no year
	at, err := time.ParseInLocation(layout, line[1:min(len(line), 1+len(layout))], time.Local)
	if err != nil {
		s.t.Fatalf("reading the time in the log of the manager: %v", err)
	}
	return at.AddDate(time.Now().Year(), 0, 0)
}
