// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
)

const (
	// smallNodes is how many nodes are enough to see three waves and the growth of the last one.
	smallNodes = 12
	// manyNodes is how many nodes the rollouts of all dialects have.
	manyNodes = 100
)

// threeWaves are one node of each zone, a percentage of the nodes, and the rest in steps that grow.
type threeWaves struct {
	canary, part time.Duration // how long they soak
	percent      int
	start        int // the first step of the rest, in percent
}

func (w threeWaves) spec() string {
	return fmt.Sprintf(`
  waves:
  - {name: canary, nodes: {count: 3, spreadBy: [topology.kubernetes.io/zone]}, soak: %s}
  - {name: part, nodes: {percent: %d}, soak: %s}
  - {name: rest, nodes: {percent: 100}, growth: {start: %d%%, factor: 2}}
`, w.canary, w.percent, w.part, w.start)
}

// manual computes the steps as the documentation of the fields describes them. Advanced DaemonSets update the nodes in the opposite order.
func (w threeWaves) manual(s *stage) []step {
	var free []string
	canary := step{wave: "canary", soak: w.canary}
	for _, zone := range s.zones {
		canary.nodes = append(canary.nodes, zone[0])
		free = append(free, zone[1:]...)
	}
	count := (len(s.Nodes)*w.percent+99)/100 - len(canary.nodes)
	steps := []step{canary, {wave: "part", soak: w.part, nodes: free[:count]}}
	rest := slices.Clone(free[count:])
	if s.dialect.advanced {
		slices.Reverse(rest)
	}
	for size := (len(rest)*w.start + 99) / 100; len(rest) > 0; size *= 2 {
		size = min(size, len(rest))
		steps = append(steps, step{wave: "rest", nodes: rest[:size]})
		rest = rest[size:]
	}
	return steps
}

// TestSmoke is a rollout in three waves.
func TestSmoke(t *testing.T) {
	play(newStage(t, native(), smallNodes), threeWaves{canary: 4 * time.Second, part: 3 * time.Second, percent: 50, start: 5})
}

// hundred is a rollout to 100 nodes: three canaries, a tenth, and the rest in five steps.
func hundred() threeWaves {
	return threeWaves{canary: 8 * time.Second, part: 5 * time.Second, percent: 10, start: 5}
}

// TestDialects plays the same policy with daemon sets of all kinds.
func TestDialects(t *testing.T) {
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) { play(newStage(t, d, manyNodes), hundred()) })
	}
}

// TestZones: with the order of zones, the nodes of a zone begin when those of the zones before it are done.
func TestZones(t *testing.T) {
	s := newStage(t, native(), smallNodes)
	s.govern("  order: {topologyKey: topology.kubernetes.io/zone, domains: OneAtATime}\n  waves: [{name: canary, nodes: {count: 3}, soak: 2s}]\n")
	steps := []step{{"canary", s.Nodes[:canaries], 2 * time.Second}, {"remaining", s.zones[0][canaries:], 0}, {"remaining", s.zones[1], 0}, {"remaining", s.zones[2], 0}}
	compareSteps(t, s.plan(harness.Image2).steps(t), steps)
	s.update(harness.Image2)
	for _, wrong := range s.finish().judge(steps) {
		t.Error(wrong)
	}
}

// TestAlongside plays it with a DaemonSet whose pods the controller of Kubernetes creates, while Everynode only deletes them. There, too, a version with errors reaches
// the canary only, an image that cannot be pulled as well, and nothing passes while the provider is down.
func TestAlongside(t *testing.T) {
	c := nextToNative(t)
	t.Run("waves", func(t *testing.T) { play(stageOn(t, c, alongside(), manyNodes), hundred()) })
	t.Run("failures", func(t *testing.T) {
		s := stageOn(t, c, alongside(), manyNodes)
		s.govern(strings.ReplaceAll(analysed, "failure: {action: Undo}", "failure: {waitingReasons: [ImagePullBackOff], action: Undo}"))
		judge.says(s.Name, bad)
		for image, why := range map[string]string{harness.Image3: "Measured: 0.3. result < 0.01 is false.", harness.BrokenImage: "ImagePullBackOff"} {
			s.update(image)
			s.stopsInTheCanary(image, why)
		}
		s.heldWhileDown()
	})
	t.Run("verbs", func(t *testing.T) { stageOn(t, c, alongside(), verbNodes).verbs() })
}

// stopsInTheCanary waits until a version has failed. Who applied the template owns it, so it stays, and so do the nodes that have the version.
func (s *stage) stopsInTheCanary(image, why string) {
	s.t.Helper()
	s.Poll(image+" fails", func() error {
		st := s.status()
		if st.Phase != v1alpha1.PhaseFailed || st.Failure == nil || !strings.Contains(st.Failure.Message, why) {
			return fmt.Errorf("the status is %+v", st)
		}
		return nil
	})
	if st := s.status(); !slices.ContainsFunc(st.Blocking, func(b v1alpha1.Blocking) bool { return b.Reason == "UndoNotPossible" }) {
		s.t.Errorf("what blocks is %+v", st.Blocking)
	}
	s.holds(5*time.Second, "no further node gets it", runs(image, canaries))
	if touched := s.touched(image); len(touched) != canaries {
		s.t.Errorf("%s was on %v, want %d nodes", image, touched, canaries)
	}
}

// nextToNative starts a plane on which the controller of Kubernetes keeps the pods and Everynode serves policies alone.
func nextToNative(t testing.TB) *harness.Cluster {
	t.Helper()
	shared.Cluster(t) // it writes the file with the providers
	return harness.Own(t, harness.Options{
		Nodes: planeNodes, Controller: harness.Native, Alongside: true, Sim: quick(), ManagerArgs: []string{"--analysis-providers", judge.file},
	})
}

// play rolls a daemon set out under a policy, and compares what happens to each node with the plan, node by node and wave by wave.
func play(s *stage, waves threeWaves) {
	t, d := s.t, s.dialect
	t.Helper()
	s.govern(waves.spec())
	plan, steps := s.plan(harness.Image2), waves.manual(s)
	if planned := plan.steps(t); d.owned {
		compareSteps(t, whole(planned), whole(steps)) // when an owner updates a node is not known, so the plan has no times
	} else {
		compareSteps(t, planned, steps)
	}
	s.update(harness.Image2)
	if d.owned {
		s.owners()
	}
	h := s.finish()
	for _, wrong := range h.judge(steps) {
		t.Error(wrong)
	}
	if hash := s.hash(s.status().CommittedRevision); hash != plan.Revision {
		t.Errorf("revision %s is committed, the plan names %s", hash, plan.Revision)
	}
	lines, wrong := h.compare(t, plan, s.updated.Truncate(time.Second))
	for _, line := range lines {
		t.Log(line)
	}
	for _, line := range wrong {
		t.Error(line)
	}
	s.compareStatus(steps)
}

// whole joins the steps of each wave.
func whole(steps []step) []step {
	var waves []step
	for _, s := range steps {
		if len(waves) == 0 || waves[len(waves)-1].wave != s.wave {
			waves = append(waves, step{wave: s.wave})
		}
		last := &waves[len(waves)-1]
		last.nodes, last.soak = append(last.nodes, s.nodes...), s.soak
	}
	return waves
}

// compareSteps compares the steps of a plan with those of the documentation. The order of the nodes of one step does not count.
func compareSteps(t *testing.T, planned, manual []step) {
	t.Helper()
	text := func(s step) string {
		nodes := slices.Sorted(slices.Values(s.nodes))
		return fmt.Sprintf("wave %s, soak %s, nodes %v", s.wave, s.soak, nodes)
	}
	for i := range max(len(planned), len(manual)) {
		var a, b string
		if i < len(planned) {
			a = text(planned[i])
		}
		if i < len(manual) {
			b = text(manual[i])
		}
		if a != b {
			t.Errorf("step %d: the plan has %q, the documentation means %q", i+1, a, b)
		}
	}
}

// compareStatus compares the numbers that the policy reports of its waves.
func (s *stage) compareStatus(steps []step) {
	s.t.Helper()
	reported := map[string]int{}
	for _, w := range s.status().Waves {
		reported[w.Name] = int(w.Nodes)
	}
	s.t.Logf("the status has the waves %v after the end", reported)
	for _, w := range whole(steps) {
		if reported[w.wave] != len(w.nodes) && len(reported) > 0 {
			s.t.Errorf("the status has %d nodes in wave %s, want %d", reported[w.wave], w.wave, len(w.nodes))
		}
	}
}

// owners updates nodes as their owners do: each pod that reports a newer revision is deleted, until the rollout has ended.
func (s *stage) owners() {
	s.t.Helper()
	hash := s.hash(s.status().TargetRevision)
	s.Poll("the owners have updated all nodes", func() error {
		for _, p := range s.View().Pods(set) {
			if announces(p, hash) && p.DeletionTimestamp == nil {
				s.DeletePod(s.recorder, p)
			}
		}
		if st := s.status(); st.Phase != v1alpha1.PhaseComplete {
			return fmt.Errorf("the phase is %s", st.Phase)
		}
		return nil
	})
}
