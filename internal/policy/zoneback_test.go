// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestOrderOfANodeThatComesBack: while a zone is being updated, no update starts in another one, also not on a node of an earlier zone that was not ready at its turn.
func TestOrderOfANodeThatComesBack(t *testing.T) {
	w := newWorld(t, "order: {topologyKey: zone, domains: OneAtATime}\nunreachableAfter: 1m")
	for name := range strings.SplitSeq("abcdefghij", "") {
		w.labels[name] = map[string]string{"zone": "2"}
	}
	w.labels["a"], w.labels["b"] = map[string]string{"zone": "1"}, map[string]string{"zone": "1"}
	w.node("b").Ready, w.node("b").Since = false, w.s.Now.Add(-time.Hour)
	w.node("b").Pods[0].Deleting = true // and no kubelet ends it
	w.s.Set.MaxUnavailable.Value = 3
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "remaining")
	w.pass(time.Second)
	if got := w.roll(); !strings.HasPrefix(got, "c") {
		t.Fatal(got, w.verdicts())
	}
	w.put("c", 1, false) // zone 2 is at work
	w.node("b").Ready, w.node("b").Since = true, w.s.Now
	w.put("b", 0, true)
	w.pass(time.Second)
	if got := w.roll(); strings.Contains(got, "b") {
		t.Errorf("while c of zone 2 is being updated, %s of zone 1 starts", got)
	}
}

// TestOrderOfANodeOfAPassedWave: while a zone is being updated in a later wave, a node of a passed wave that comes back in another zone waits.
func TestOrderOfANodeOfAPassedWave(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}}]\norder: {topologyKey: zone, domains: OneAtATime}\nunreachableAfter: 1m")
	for _, name := range "abcdefghij" {
		w.labels[string(name)] = map[string]string{"zone": "2"}
	}
	w.labels["a"], w.labels["b"] = map[string]string{"zone": "1"}, map[string]string{"zone": "1"}
	w.node("b").Ready, w.node("b").Since = false, w.s.Now.Add(-time.Hour)
	w.node("b").Pods[0].Deleting = true // and no kubelet ends it
	w.s.Set.MaxUnavailable.Value = 3
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	if got := w.roll(); got == "" || got[0] != 'c' {
		t.Fatal(got, w.verdicts())
	}
	w.put("c", 1, false) // zone 2 is at work
	w.node("b").Ready, w.node("b").Since = true, w.s.Now
	w.put("b", 0, true)
	w.pass(time.Second)
	if got := w.roll(); len(got) > 0 && got[0] == 'b' {
		t.Errorf("while c of zone 2 is being updated, %s of zone 1 starts: %s %+v", got, w.verdicts(), w.last.Waves)
	}
}
