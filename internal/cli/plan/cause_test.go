// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// TestPlanAfterThePolicyWasDeleted: the reason of the nodes is that the policy was deleted in the middle of a rollout, and not one of several.
func TestPlanAfterThePolicyWasDeleted(t *testing.T) {
	roll := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uooooo"}
	revisions := roll.Revisions(t)
	oldest := revisions[0].(*appsv1.ControllerRevision)
	oldest.Annotations = map[string]string{everynode.Committed: everynode.FormatCommitted(1, string(oldest.UID))}
	cluster := fakecluster.New(t, append(append(append(roll.Nodes(), roll.Pods()...), revisions...), roll.Object())...)
	if err := cluster.Run(t, New, "agent", "--local"); err != nil {
		t.Fatal(err)
	}
	const want = "the pod is old; the rollout policy that governed the daemon set was deleted in the middle of a rollout, so no update starts   node-2,"
	if out := cluster.Out.String(); !strings.Contains(out, want) {
		t.Errorf("it prints\n%s, want %s", out, want)
	}
}
