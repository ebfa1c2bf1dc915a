// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestNoPodIsAvailable: a daemon set that is installed with an image that does not work has no rollout that could fail. The policy is not Ready all the same, because a tool may wait for the policy alone.
func TestNoPodIsAvailable(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}}]")
	w.s.Revisions, w.s.Set.Update, w.marks, w.failed = w.s.Revisions[:1], 0, w.marks[:1], w.failed[:1]
	for i := range w.s.Nodes {
		w.put(w.s.Nodes[i].Name, 0, false)
	}
	want := func(when, kind, reason, message string) {
		t.Helper()
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseComplete, "")
		conditions := w.policies[0].Conditions(nil, []v1alpha1.SetStatus{*w.last}, nil, metav1.Time{})
		for _, each := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
			if c := meta.FindStatusCondition(conditions, each); (c.Status == metav1.ConditionTrue) != (each == kind) || each == kind && (c.Reason != reason || c.Message != message) {
				t.Errorf("%s: %+v", when, c)
			}
		}
	}
	want("no pod is available", v1alpha1.ConditionReconciling, "NoPodAvailable", "agent: No node has an available pod of the committed revision.")
	w.put("b", 0, true)
	want("one is available, and other nodes may be down", v1alpha1.ConditionReady, "Complete", "All nodes of 1 daemon set have the committed revision.")
	w.s.Nodes = nil
	want("there is no node", v1alpha1.ConditionReady, "Complete", "All nodes of 1 daemon set have the committed revision.")
}
