// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestEndWithAnUnreachableNode: a rollout whose waves have all passed ends, and the policy is ready, although a node is left out that cannot be reached.
func TestEndWithAnUnreachableNode(t *testing.T) {
	w := newWorld(t, "unreachableAfter: 1m\nwaves: [{name: canary, nodes: {count: 1}}]")
	n := w.node("j")
	n.Ready, n.Since, n.Pods[0].Ready, n.Pods[0].Deleting = false, w.s.Now.Add(-time.Hour), false, true
	for range 6 {
		w.pass(time.Minute)
		w.roll()
	}
	if w.last.CommittedRevision != "agent-v2" || w.have(1) != "abcdefghi" {
		t.Fatalf("%+v", w.last)
	}
	if c := w.condition(v1alpha1.ConditionReady); w.last.Phase != v1alpha1.PhaseComplete || c.Status != metav1.ConditionTrue {
		t.Errorf("v2 is committed, and j is left out: phase %s, %s", w.last.Phase, c.Message)
	}
}
