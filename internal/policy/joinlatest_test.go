// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// newcomers has a node join without a pod, carries out the next decision, and wants only the node a to have the new revision.
func (w *world) newcomers() {
	w.t.Helper()
	w.join("k", w.s.Now, 0)
	w.node("k").Pods = nil
	w.pass(time.Second)
	w.roll()
	if got := w.have(1); got != "a" {
		w.t.Errorf("nodes %s have the new revision, want a (%s)", got, w.last.Phase)
	}
}

// TestJoiningNodesAfterAFailure: with joiningNodes Latest, a node that joins gets no revision that has failed, also while the policy is invalid or another one applies too.
func TestJoiningNodesAfterAFailure(t *testing.T) {
	spec := "joiningNodes: Latest\nfailure: {maxRestarts: 1, action: Pause}\nwaves: [{name: canary, nodes: {count: 1}}]"
	for name, change := range map[string]func(w *world){
		"failed":   func(*world) {},
		"conflict": func(w *world) { w.policies = append(w.policies, read(t, "")) },
		"invalid": func(w *world) {
			w.policies = []*policy.Policy{read(t, spec+"\nwindows: [{schedule: 'nonsense', duration: 1h}]")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, spec)
			w.pass(0)
			w.want("a", v1alpha1.PhaseRolling, "canary")
			w.put("a", 1, false)
			w.node("a").Pods[0].Restarts = 5
			w.pass(time.Second)
			w.pass(time.Second)
			if w.last.Phase != v1alpha1.PhaseFailed {
				t.Fatalf("%+v", w.last)
			}
			change(w)
			w.newcomers()
		})
	}
}

// TestJoiningNodesInAConflict: a second policy for a set, which asks for joiningNodes Latest, gives no node that joins the revision that the first one holds back, and neither does
// one policy with a mistake.
func TestJoiningNodesInAConflict(t *testing.T) {
	canary := "waves: [{name: canary, nodes: {count: 1}, soak: 1h}]"
	for name, change := range map[string]func(w *world){
		"conflict": func(w *world) {
			other := read(t, "joiningNodes: Latest")
			other.Name = "aaa"
			w.policies = []*policy.Policy{other, w.policies[0]}
		},
		"invalid": func(w *world) {
			w.policies = []*policy.Policy{read(t, canary+"\njoiningNodes: Latest\nwindows: [{schedule: 'nonsense', duration: 1h}]")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, canary)
			w.pass(0)
			w.roll()
			w.pass(time.Second)
			change(w)
			w.newcomers()
		})
	}
}
