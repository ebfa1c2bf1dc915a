// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// tolerates lets the template select all nodes, while the committed revision does not tolerate a taint of some, which have no pod.
func tolerates(w *world, nodes string, fit rollout.Fit) {
	for i := range w.s.Nodes {
		if n := &w.s.Nodes[i]; strings.Contains(nodes, n.Name) {
			n.Pods = nil
		}
	}
	w.fits = func(int) []rollout.Fit {
		all := make([]rollout.Fit, len(w.s.Nodes))
		for i := range all {
			if all[i] = rollout.MustRun; strings.Contains(nodes, w.s.Nodes[i].Name) {
				all[i] = fit
			}
		}
		return all
	}
}

// TestTemplateThatSelectsMoreNodes: nodes that only the template selects get no pod of the committed revision, which could not run there, and use up no budget. They get their first pod in their wave. Before the change,
// they used up the budget, so the canary never began.
func TestTemplateThatSelectsMoreNodes(t *testing.T) {
	for name, fit := range map[string]rollout.Fit{"a taint": rollout.MayStay, "a selector": rollout.MustLeave} {
		for _, last := range []int{rollout.NoRevision, 0} { // another manager assumes that there was a pod
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, "{waves: [{name: canary, nodes: {count: 1}, soak: 1m}], pace: {maxUpgrading: 2}}")
				w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
				tolerates(w, "hij", fit)
				for _, name := range []string{"h", "i", "j"} {
					w.node(name).Last = last
				}
				w.pass(0)
				w.want("a", v1alpha1.PhaseRolling, "canary")
				if len(w.last.Blocking) > 0 {
					t.Error(w.last.Blocking)
				}
				w.pass(time.Second)
				w.want("", v1alpha1.PhaseSoaking, "canary")
				if got := w.verdicts(); !strings.Contains(got, "h:wait-soak i:wait-soak j:wait-soak") {
					t.Error(got)
				}
				w.pass(time.Minute)
				for range 20 {
					w.roll()
					w.pass(time.Second)
				}
				if got := w.have(1); got != "abcdefghij" || w.last.Phase != v1alpha1.PhaseComplete && w.out.Commit != 1 {
					t.Error(w.last.Phase, got, w.last.Blocking)
				}
			})
		}
	}
}

// TestTemplateThatSelectsMoreZones: such nodes hold no other zone, also under a manager that assumes that they have had a pod.
func TestTemplateThatSelectsMoreZones(t *testing.T) {
	w := newWorld(t, "{order: {topologyKey: zone, domains: OneAtATime}}")
	tolerates(w, "hij", rollout.MayStay)
	for i := range w.s.Nodes {
		n := &w.s.Nodes[i]
		w.labels[n.Name] = map[string]string{"zone": map[bool]string{false: "x", true: "y"}[n.Name >= "h"]}
		if len(n.Pods) == 0 {
			n.Last = 0
		}
	}
	w.pass(0)
	w.want("abcdefg", v1alpha1.PhaseRolling, "remaining")
}

// TestUndoOfATemplateThatSelectsMoreNodes: a node where only the revision that has failed may run ends without a pod. Before the change, it kept that pod if the set updates no nodes that only keep theirs, as an Advanced
// DaemonSet, and the undo ended all the same.
func TestUndoOfATemplateThatSelectsMoreNodes(t *testing.T) {
	for name, fit := range map[string]rollout.Fit{"a taint": rollout.MayStay, "a selector": rollout.MustLeave} {
		for _, eligibleOnly := range []bool{false, true} {
			t.Run(fmt.Sprint(name, eligibleOnly), func(t *testing.T) {
				w := newWorld(t, "{waves: [{name: canary, nodes: {selector: {matchLabels: {zone: one}}}, soak: 1h}], failure: {maxRestarts: 0, action: Undo}}")
				w.s.Set.EligibleOnly = eligibleOnly
				w.labels["j"] = map[string]string{"zone": "one"}
				tolerates(w, "ij", fit)
				w.pass(0)
				w.want("j", v1alpha1.PhaseRolling, "canary")
				w.pass(time.Second) // its pod is available
				w.node("j").Pods[0].Restarts = 1
				w.pass(time.Second)
				w.pass(time.Second)
				if w.last.Phase != v1alpha1.PhaseUndoing {
					t.Fatal(w.last.Phase, w.last.Blocking)
				}
				s := w.s
				w.out.Enter(&s, nil)
				if p := rollout.Decide(s); len(p.Actions) != 1 || p.Actions[0].Kind != rollout.Delete || s.Nodes[p.Actions[0].Node].Name != "j" {
					t.Fatalf("%+v", p.Actions)
				}
				w.node("j").Pods, w.node("j").Last = nil, 0
				w.pass(time.Second)
				w.want("", v1alpha1.PhaseFailed, "canary")
			})
		}
	}
}

// TestUndoKeepsOlderPodsOfNodesThatOnlyKeepTheirPod: an undo empties nodes of the revision that has failed. A node that has an earlier pod, and that may not get one of the committed revision, keeps its pod by the rule of an Advanced
// DaemonSet.
func TestUndoKeepsOlderPodsOfNodesThatOnlyKeepTheirPod(t *testing.T) {
	w := newWorld(t, "{waves: [{name: canary, nodes: {selector: {matchLabels: {zone: one}}}, soak: 1h}], failure: {maxRestarts: 0, action: Undo}}")
	w.s.Set.EligibleOnly = true
	w.labels["j"] = map[string]string{"zone": "one"}
	tolerates(w, "ij", rollout.MayStay)
	w.put("i", rollout.NoRevision, true) // from before the taint
	w.pass(0)
	w.want("j", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.failOn("j")
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("j", v1alpha1.PhaseUndoing, "canary")
	w.node("j").Pods, w.node("j").Last = nil, 0
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	if got := w.verdicts(); !strings.Contains(got, "i:wait-eligible") {
		t.Error(got)
	}
}
