// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
)

// verbNodes are the nodes of TestVerbs.
const verbNodes = 4

// TestVerbs types the commands about a rollout for daemon sets of all kinds; TestAlongside does it next to the controller of Kubernetes.
func TestVerbs(t *testing.T) {
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) { newStage(t, d, verbNodes).verbs() })
	}
}

// verbs goes through a rollout that is suspended, resumed, promoted and approved, and through one that is rejected.
func (s *stage) verbs() {
	s.t.Helper()
	s.govern("  waves: [{name: canary, nodes: {count: 1}, soak: 1h, after: [{type: Approval}]}]\n")
	of := s.dialect.argument()
	s.reachesTheSoak(harness.Image2)
	s.Prints([]string{"status", of}, "rolloutpolicy/agents: Soaking, wave canary (1 of 2): 1 of 1 nodes updated and available")
	s.explains("wait-soak", "wave remaining (2 of 2)")
	s.plugin("suspend", of)
	s.await(v1alpha1.PhaseSuspended)
	s.explains("wait-soak", "Suspended, wave canary")
	s.plugin("resume", "rolloutpolicy/"+agents)
	s.await(v1alpha1.PhaseSoaking)
	s.plugin("promote", of)
	s.await(v1alpha1.PhaseWaitingForApproval)
	s.Prints([]string{"status", of}, "WaitingForApproval", "kubectl everynode approve "+of)
	s.explains("wait-approval", "kubectl everynode approve "+of)
	s.plugin("approve", of, "--reason", "the canary is fine")
	if s.dialect.owned {
		s.owners()
	}
	s.await(v1alpha1.PhaseComplete)
	s.Wait("all nodes have it", runOn(harness.Image2, s.Nodes))

	s.reachesTheSoak(harness.Image3)
	s.plugin("reject", of, "--reason", "a wrong version")
	s.await(v1alpha1.PhaseRejected)
	s.Prints([]string{"status", of}, "Rejected")
	s.explains("wait-rejected", "Rejected")
	s.Wait("only the canary has it", runs(harness.Image3, 1), runOn(harness.Image2, s.Nodes[1:]))
}

// reachesTheSoak updates to an image, and waits until the canary has it and soaks.
func (s *stage) reachesTheSoak(image string) {
	s.t.Helper()
	s.update(image)
	s.Poll("the canary soaks", func() error {
		st := s.status()
		for _, p := range s.View().Pods(set) {
			if s.dialect.owned && st.TargetRevision != st.CommittedRevision && announces(p, s.hash(st.TargetRevision)) && p.DeletionTimestamp == nil {
				s.DeletePod(s.recorder, p)
			}
		}
		if st.Phase != v1alpha1.PhaseSoaking {
			return fmt.Errorf("the phase is %s", st.Phase)
		}
		return nil
	})
}

// explains expects that explain-node says something about the last node.
func (s *stage) explains(says ...string) {
	s.t.Helper()
	s.Prints([]string{"explain-node", s.Nodes[len(s.Nodes)-1], s.dialect.argument()}, says...)
}
