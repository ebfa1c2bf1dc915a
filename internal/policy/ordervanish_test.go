// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestPodsThatVanishInALaterZone: while a zone is being updated, nodes of a later zone whose pods vanish, for example because a user deletes them, get the revision that they had: their turn has not come. That must not
// depend on whether the first node of the zone is among them.
func TestPodsThatVanishInALaterZone(t *testing.T) {
	for _, vanish := range []string{"f", "gh", "fghij"} {
		w := newWorld(t, "order: {topologyKey: zone, domains: OneAtATime}")
		for i, name := range strings.Split("abcdefghij", "") {
			w.labels[name] = map[string]string{"zone": string(rune('1' + i/5))}
		}
		w.pass(0)
		w.want("abcde", v1alpha1.PhaseRolling, "remaining")
		w.put("a", 1, false) // zone 1 is at work
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseRolling, "remaining")
		for name := range strings.SplitSeq(vanish, "") {
			n := w.node(name)
			n.Pods, n.Last = nil, 0
		}
		w.pass(time.Second)
		if got := w.roll(); got != vanish || w.have(1) != "abcde" {
			t.Errorf("the pods of %s vanish in zone 2 while zone 1 is being updated: %q get a pod, and %q have the new revision", vanish, got, w.have(1))
		}
	}
}

// TestPodThatVanishesOnALateNode is the same for a node of a wave that has passed, which was left out and has come back in another zone.
func TestPodThatVanishesOnALateNode(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {selector: {matchLabels: {canary: 'true'}}}}, {name: rest, nodes: {percent: 100}, soak: 1h}]\norder: {topologyKey: zone, domains: OneAtATime}\nunreachableAfter: 1m")
	for name := range strings.SplitSeq("abcdefghij", "") {
		w.labels[name] = map[string]string{"zone": "3"}
	}
	w.labels["a"], w.labels["b"] = map[string]string{"zone": "3", "canary": "true"}, map[string]string{"zone": "1", "canary": "true"}
	w.isCut("b")
	w.s.Set.MaxUnavailable.Value = 3
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.want("cd", v1alpha1.PhaseRolling, "rest")
	w.put("c", 1, false) // zone 3 is at work
	w.node("b").Ready, w.node("b").Since = true, w.s.Now
	w.put("b", 0, true)
	w.pass(time.Second)
	w.want("ef", v1alpha1.PhaseRolling, "rest")
	w.node("b").Pods, w.node("b").Last = nil, 0
	w.pass(time.Second)
	w.roll()
	if got := w.node("b").Pods; len(got) != 1 || got[0].Revision != 0 {
		t.Errorf("while zone 3 is being updated, the pod of b in zone 1 vanishes, and its next pod has the new revision: %+v", got)
	}
}

// TestPodThatVanishesInAnEarlierZone is the same for a node of the active wave, which was left out and has come back in an earlier zone than the one that is at work.
func TestPodThatVanishesInAnEarlierZone(t *testing.T) {
	w := newWorld(t, "order: {topologyKey: zone, domains: OneAtATime}\nunreachableAfter: 1m")
	for i, name := range strings.Split("abcdefghij", "") {
		w.labels[name] = map[string]string{"zone": string(rune('1' + i/2))}
	}
	w.isCut("b")
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "remaining")
	w.pass(time.Second)
	w.want("cd", v1alpha1.PhaseRolling, "remaining")
	w.put("c", 1, false) // zone 2 is at work
	w.node("b").Ready, w.node("b").Since = true, w.s.Now
	w.node("b").Pods, w.node("b").Last = nil, 0
	w.pass(time.Second)
	if got := w.roll(); got != "b" || w.have(0) != "befghij" {
		t.Errorf("while zone 2 is being updated, the pod of b in zone 1 vanishes: %q get a pod, and %q have the old revision", got, w.have(0))
	}
}
