// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// selects lets the template select some nodes only, while the committed revision v1 selects all others too.
func selects(w *world, nodes string) {
	for i := range w.s.Nodes {
		w.s.Nodes[i].Fit = rollout.MustLeave
		if strings.Contains(nodes, w.s.Nodes[i].Name) {
			w.s.Nodes[i].Fit = rollout.MustRun
		}
	}
	w.fits = func(revision int) []rollout.Fit {
		if revision != 0 {
			w.t.Errorf("where pods of revision %d may run does not matter", revision)
		}
		all := make([]rollout.Fit, len(w.s.Nodes))
		for i := range all {
			all[i] = rollout.MustRun
		}
		return all
	}
}

// keeps are the nodes that keep their pod although the template excludes them.
func keeps(w *world) (names string) {
	s := w.s
	w.out.Enter(&s, nil)
	for i := range s.Nodes {
		if w.s.Nodes[i].Fit == rollout.MustLeave && s.Nodes[i].Fit == rollout.MayStay {
			names += s.Nodes[i].Name
		}
	}
	return names
}

// TestTemplateThatSelectsNoNode: before the change, all pods left their nodes at once, and the empty waves passed.
func TestTemplateThatSelectsNoNode(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 1h}]")
	selects(w, "")
	for range 3 {
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseStalled, "canary")
		if w.out.Commit >= 0 || w.last.Blocking[0].Reason != policy.NoNodeEligible || keeps(w) != "abcdefghij" {
			t.Errorf("commit %d, %+v, %s keep their pods", w.out.Commit, w.last.Blocking, keeps(w))
		}
	}
	w.s.Set.Update = 0 // the template is changed back
	for i := range w.s.Nodes {
		w.s.Nodes[i].Fit = rollout.MustRun
	}
	w.pass(time.Second)
	if w.last.Phase != v1alpha1.PhaseComplete || w.out.Fits != nil {
		t.Errorf("%s, %v", w.last.Phase, w.out.Fits)
	}
}

// TestTemplateThatSelectsFewerNodes: the nodes that it excludes keep their pods until the last wave, and then the wave goes on without them.
func TestTemplateThatSelectsFewerNodes(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 1m}]")
	selects(w, "cdef")
	w.pass(0)
	w.want("cd", v1alpha1.PhaseRolling, "canary")
	if keeps(w) != "abghij" {
		t.Errorf("%s keep their pods", keeps(w))
	}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(time.Minute)
	w.want("abefghij", v1alpha1.PhaseRolling, policy.Remaining) // in the budget of the set
	if keeps(w) != "abghij" {
		t.Errorf("%s keep their pods", keeps(w))
	}
}

// TestUndoOfATemplateThatSelectsFewerNodes: nodes that have lost their pod to the last wave get it again, although the template excludes them.
func TestUndoOfATemplateThatSelectsFewerNodes(t *testing.T) {
	w := newWorld(t, "{waves: [{name: canary, nodes: {count: 1}}], failure: {maxRestarts: 0, action: Undo}, pace: {maxUpgrading: 2}}")
	selects(w, "cdef")
	w.pass(0)
	w.want("c", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	if w.last.Wave != policy.Remaining {
		t.Fatal(w.last.Wave, w.last.Phase)
	}
	for _, name := range []string{"a", "b"} { // their pods have been removed
		w.node(name).Pods, w.node(name).Last = nil, 0
	}
	w.node("c").Pods[0].Restarts = 1
	w.pass(time.Second)
	w.pass(time.Second)
	if w.last.Phase != v1alpha1.PhaseUndoing || w.out.Wanted != 0 {
		t.Fatal(w.last.Phase, w.out.Wanted, w.last.Blocking)
	}
	if w.out.Gate.InFlight != 2 { // rollout.Decide counts the nodes a and b itself
		t.Error(w.out.Gate.InFlight)
	}
	s := w.s
	w.out.Enter(&s, nil)
	for i := range s.Nodes {
		if s.Nodes[i].Fit != rollout.MustRun {
			t.Errorf("node %s: %v", s.Nodes[i].Name, s.Nodes[i].Fit)
		}
	}
}

// TestTemplateThatExcludesBrokenNodes: pods that do not work on nodes that the template excludes keep no wave from beginning. Before the change, they used up the budget, for no update replaced them before their wave.
func TestTemplateThatExcludesBrokenNodes(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 1m}]")
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
	selects(w, "cdefghij")
	for _, name := range []string{"a", "b"} {
		w.put(name, 0, false)
	}
	for _, rolled := range []string{"c", "d"} {
		w.pass(time.Second)
		w.want(rolled, v1alpha1.PhaseRolling, "canary")
		if len(w.last.Blocking) > 0 || keeps(w) != "ab" {
			t.Errorf("%+v, %s keep their pods", w.last.Blocking, keeps(w))
		}
	}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(time.Minute)
	w.want("ab", v1alpha1.PhaseRolling, policy.Remaining)
}
