// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestAWaveThatItsGroupHoldsDoesNotBegin: its event, the notice and the condition say that it waits.
func TestAWaveThatItsGroupHoldsDoesNotBegin(t *testing.T) {
	w := newWorld(t, "")
	w.neighbours = neighbour(policy.ScopeCluster, policy.Neighbour{Known: true, UnderWay: policy.Nodes{"c": "east"}})
	w.pass(0)
	const want = "The wave remaining of revision agent-v2 begins on 10 nodes, when its concurrency group allows that."
	if !slices.Contains(w.messages, want) || w.notices[len(w.notices)-1].Reason != want {
		t.Errorf("messages %q, notices %+v", w.messages, w.notices)
	}
	set := policy.Set{Namespace: "default", Name: "agent"}
	for _, c := range w.policies[0].Conditions([]policy.Set{set}, []v1alpha1.SetStatus{*w.last}, nil, metav1.Now()) {
		if c.Type == v1alpha1.ConditionReconciling && c.Message != "agent: Rolling in wave remaining, in which nodes wait for another daemon set of the concurrency group" {
			t.Errorf("it says %q", c.Message)
		}
	}
	w = newWorld(t, "")
	w.neighbours = neighbour(policy.ScopeNode, policy.Neighbour{Known: true, UnderWay: policy.Nodes{"c": "east"}})
	if w.pass(0); !slices.Contains(w.messages, "The wave remaining of revision agent-v2 begins on 10 nodes.") {
		t.Errorf("only one node waits, and the messages are %q", w.messages)
	}
}
