// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
)

// joining is how many nodes join.
const joining = 5

// TestNodesJoin: nodes that join during the canary get the committed revision, and the newest one with the other nodes.
func TestNodesJoin(t *testing.T) {
	for _, d := range []dialect{native(), dialects()[2]} {
		t.Run(d.name, func(t *testing.T) {
			s := newStage(t, d, smallNodes)
			s.kubectl(rightToApprove, "apply", "-f", "-")
			s.govern("\n  waves:\n  - {name: canary, nodes: {count: 2}, after: [{type: Approval}]}\n")
			before := slices.Clone(s.Nodes)
			s.update(harness.Image2)
			s.await(v1alpha1.PhaseWaitingForApproval)
			for range joining {
				s.AddFreshNode()
			}
			joined := s.Nodes[len(before):]
			s.Wait("the nodes that have joined run the committed revision", runOn(harness.Image, joined), runs(harness.Image2, 2),
				harness.StatusIs(set, "available", availableOn(len(s.Nodes))))
			st := s.status()
			hash := s.hash(st.CommittedRevision)
			for _, node := range joined {
				if p := s.View().PodOn(set, node); !updated(p, hash) {
					t.Errorf("pod %s has revision %s, want %s", p.Name, p.Labels[appsv1.ControllerRevisionHashLabelKey], hash)
				}
			}
			if st.Phase != v1alpha1.PhaseWaitingForApproval {
				t.Errorf("the phase is %s", st.Phase)
			}
			if err := s.approve("approver"); err != nil {
				t.Fatal(err)
			}
			for _, wrong := range s.finish().judge([]step{{"canary", before[:2], 0}, {"remaining", s.Nodes[2:], 0}}) {
				t.Error(wrong)
			}
		})
	}
}

// runOn is met when each of these nodes has a ready pod with an image.
func runOn(image string, nodes []string) harness.Condition {
	return func(v harness.View) error {
		for _, node := range nodes {
			if p := v.PodOn(set, node); p == nil || !harness.Ready(p) || p.Spec.Containers[0].Image != image {
				return fmt.Errorf("node %s has no ready pod with image %s", node, image)
			}
		}
		return nil
	}
}

// availableOn checks a status for that many available pods.
func availableOn(nodes int) func(s appsv1.DaemonSetStatus) bool {
	return func(s appsv1.DaemonSetStatus) bool { return int(s.NumberAvailable) == nodes }
}
