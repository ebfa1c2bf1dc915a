// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
)

// TestNodesThatMayFail: a version fails on one node of the canary, and that many may. The rollout goes on without the node.
func TestNodesThatMayFail(t *testing.T) { inEachKindAtOnce(t, (*stage).goesOnAfterAFailure) }

func (s *stage) goesOnAfterAFailure() {
	s.t.Helper()
	s.govern("  waves: [{name: canary, nodes: {count: 3}, soak: 2s}]\n  failure: {nodeDeadline: 30s, maxFailedNodes: 1, waitingReasons: [ImagePullBackOff], action: Undo}\n")
	image := harness.Image2 + "-missing-on-" + s.Nodes[0]
	s.update(image)
	s.Poll("the revision is committed", func() error {
		if st := s.status(); st.Phase != v1alpha1.PhaseComplete || st.CommittedRevision != st.TargetRevision {
			return fmt.Errorf("the status is %+v", st)
		}
		return nil
	})
	s.Wait("all other nodes run it", runOn(image, s.Nodes[1:]))
	if st := s.status(); st.Failure != nil || len(st.Waves) == 0 || st.Waves[0].Failed != 1 || st.Waves[0].FailedNodes[0].Name != s.Nodes[0] {
		s.t.Errorf("the status is %+v", st)
	}
}

// TestAVersionThatIsRefused: the API server refuses the pods of a version. It fails in the canary, whose nodes get the pods of before again.
func TestAVersionThatIsRefused(t *testing.T) {
	for _, d := range dialects() {
		if d.owned || d.advanced || d.name == "surge" { // a change in place creates no pod, and with a surge the old pod serves on
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			newStage(t, d, failureNodes).undoesWhatIsRefused()
		})
	}
}

func (s *stage) undoesWhatIsRefused() {
	s.t.Helper()
	s.govern("  waves: [{name: canary, nodes: {count: 3}, soak: 2s}]\n  failure: {nodeDeadline: 5s, action: Undo}\n")
	before := s.status().TargetRevision
	s.Apply(s.PodPolicy("CREATE", fmt.Sprintf("object.spec.containers[0].image != '%s'", harness.Image2)))
	s.InForce("this one is protected", "", "run", "probe", "--image="+harness.Image2, "--dry-run=server")
	s.update(harness.Image2)
	s.undone(harness.Image2, before)
	if st := s.status(); st.Failure == nil || st.Failure.Wave != "canary" || !strings.Contains(st.Failure.Message, "CreateRefused") {
		s.t.Errorf("the failure is %+v", st.Failure)
	}
}

// TestAVersionThatTakesItsNodeDown: a node stops being ready soon after it has got the version. No further node gets it, although the rule of the dialect leaves nodes out that are not ready.
func TestAVersionThatTakesItsNodeDown(t *testing.T) {
	inEachKindAtOnce(t, (*stage).undoesWhatTakesNodesDown)
}

func (s *stage) undoesWhatTakesNodesDown() {
	s.t.Helper()
	s.govern("  unreachableAfter: 5s\n  waves: [{name: canary, nodes: {count: 3}, soak: 10m}]\n  failure: {nodeDeadline: 20s, action: Undo}\n")
	before := s.status().TargetRevision
	s.update(harness.Image2)
	s.await(v1alpha1.PhaseSoaking)
	s.CutNode(s.Nodes[0])
	s.Poll("the revision fails, and the other nodes return", func() error {
		if st := s.status(); st.Failure == nil || st.Phase != v1alpha1.PhaseFailed && st.Phase != v1alpha1.PhaseUndoing || st.TargetRevision == before {
			return fmt.Errorf("the status is %+v", st)
		}
		return nil
	})
	s.Wait("all other nodes run the version of before", runOn(harness.Image, s.Nodes[1:]))
	if st := s.status(); st.Failure.Wave != "canary" || !strings.Contains(st.Failure.Message, s.Nodes[0]+" (NodeNotReady)") {
		s.t.Errorf("the failure is %+v", st.Failure)
	}
	if touched := s.touched(harness.Image2); len(touched) != canaries {
		s.t.Errorf("%v had it, want %d nodes", touched, canaries)
	}
	s.HealNode(s.Nodes[0])
	s.Wait("it returns when it is ready", runOn(harness.Image, s.Nodes))
}
