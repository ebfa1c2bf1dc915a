// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// TestUndoWithinItsLimit: nodes with a version that works return as undo.maxUnavailable allows it. A set that surges keeps its pods until the next ones are available.
func TestUndoWithinItsLimit(t *testing.T) {
	for _, d := range dialects() {
		if !d.owned {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				newStage(t, d, smallNodes).returnsWithinTheLimit()
			})
		}
	}
}

func (s *stage) returnsWithinTheLimit() {
	s.t.Helper()
	const first, limit = 9, 2
	s.govern(fmt.Sprintf("  waves: [{name: canary, nodes: {count: %d}, soak: 1h}]\n  undo: {maxUnavailable: %d}\n", first, limit))
	s.update(harness.Image2)
	s.await(v1alpha1.PhaseSoaking)
	s.observe()
	s.plugin("undo", s.dialect.argument(), "--to-committed", "--reason", "it leaks memory")
	s.await(v1alpha1.PhaseFailed)
	s.Wait("all nodes run the version of before", runOn(harness.Image, s.Nodes), runs(harness.Image2, 0))
	most := mostUnavailable(s.recorder.Log())
	s.t.Logf("%s: %d nodes returned, at most %d of them lacked an available pod at a time, and undo.maxUnavailable is %d", s.dialect.name, first, most, limit)
	switch {
	case most > limit:
		s.t.Errorf("%d nodes lacked an available pod at the same time, want at most %d", most, limit)
	case most == 0 && s.dialect.name != "surge":
		s.t.Errorf("no node lacked an available pod, so this test shows nothing")
	}
}

// mostUnavailable is how many nodes that had had an available pod had none at the same time.
func mostUnavailable(log []observe.Event) int {
	available := map[string]map[types.UID]bool{} // by node
	most := 0
	for _, event := range log {
		p, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		node := observe.NodeOf(p)
		switch is := event.Type != watch.Deleted && observe.Available(p, 0, event.At); {
		case is && available[node] == nil:
			available[node] = map[types.UID]bool{p.UID: true}
		case is:
			available[node][p.UID] = true
		default:
			delete(available[node], p.UID)
		}
		lack := 0
		for _, pods := range available {
			if len(pods) == 0 {
				lack++
			}
		}
		most = max(most, lack)
	}
	return most
}

// TestWaveDeadline: in every dialect in which Everynode creates the pods, a wave that takes too long fails, although nodeDeadline allows each of its nodes more time.
func TestWaveDeadline(t *testing.T) {
	for _, d := range dialects() {
		if !d.owned {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				newStage(t, d, smallNodes).failsByItsWave()
			})
		}
	}
}

func (s *stage) failsByItsWave() {
	s.t.Helper()
	s.govern("  waves: [{name: canary, nodes: {count: 3}, soak: 2s}]\n  failure: {nodeDeadline: 1h, waveDeadline: 10s, action: Undo}\n")
	before := s.status().TargetRevision
	s.updateGated() // its pods run, and are not ready
	s.undone(harness.Image2, before)
	st := s.status()
	if st.Failure == nil || !strings.Contains(st.Failure.Message, "after 10s, 0 of 3 nodes have an available pod") || len(st.Waves[0].FailedNodes) > 0 {
		s.t.Errorf("the status is %+v", st)
	}
	if touched := s.touched(harness.Image2); len(touched) == 0 || len(touched) > canaries {
		s.t.Errorf("the version was on %v, want at most %d nodes", touched, canaries)
	}
}
