// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
)

// TestNodesVanish: no other node gets the version in the place of one that vanishes. When the last one of the canary has vanished, the rollout stops, also for the
// next manager, until a user goes on.
func TestNodesVanish(t *testing.T) {
	for _, d := range []dialect{native(), dialects()[2]} {
		t.Run(d.name, func(t *testing.T) {
			s := newStage(t, d, smallNodes)
			s.govern("\n  waves:\n  - {name: canary, nodes: {count: 2}, soak: 1h}\n")
			s.reachesTheSoak(harness.Image2)
			canary, rest := slices.Clone(s.Nodes[:2]), slices.Clone(s.Nodes[2:])
			held := runOn(harness.Image, rest)
			s.RemoveNode(canary[0])
			s.Poll("the status reports the node that is gone", s.gone(1))
			s.holds(5*time.Second, "no other node is updated", held)
			if st := s.status(); st.Phase != v1alpha1.PhaseSoaking || !slices.Equal(st.Waves[0].Begun, canary[1:]) {
				t.Errorf("the status is %+v", st)
			}
			s.Cluster.Kill(t, harness.ManagerComponent)
			s.restart()
			s.RemoveNode(canary[1])
			s.Poll("the status reports both", s.gone(2))
			s.await(v1alpha1.PhaseStalled)
			s.Prints([]string{"status", d.argument()}, "The update had begun on 2 nodes of the wave canary that it has no more: 2 of them do not exist any more")
			s.holds(5*time.Second, "no other node is updated", held)
			s.plugin("promote", d.argument())
			s.await(v1alpha1.PhaseComplete)
			s.Wait("all nodes have it", runOn(harness.Image2, rest))
		})
	}
}

// gone is met when the status reports that many nodes of the first wave as gone.
func (s *stage) gone(nodes int32) func() error {
	return func() error {
		if st := s.status(); len(st.Waves) == 0 || st.Waves[0].Gone != nodes {
			return fmt.Errorf("the status is %+v", st)
		}
		return nil
	}
}
