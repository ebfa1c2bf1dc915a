// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"
)

// TestALateNodeThatUsesUpTheBudget: a node that was left out in its wave comes back in an earlier zone with an old pod that is not available. It uses up the budget of the active wave, which
// starts nothing, and is itself held because that wave may start. Neither waits for ever.
func TestALateNodeThatUsesUpTheBudget(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {selector: {matchLabels: {canary: 'true'}}}}, {name: rest, nodes: {percent: 100}}]\norder: {topologyKey: zone, domains: OneAtATime}\nunreachableAfter: 1m")
	for name := range strings.SplitSeq("abcdefghij", "") {
		w.labels[name] = map[string]string{"zone": "2"}
	}
	w.labels["a"], w.labels["b"] = map[string]string{"zone": "1", "canary": "true"}, map[string]string{"zone": "1", "canary": "true"}
	w.isCut("b")
	w.s.Set.MaxUnavailable.Value = 2
	w.pass(0)
	if got := w.roll(); got != "a" {
		t.Fatalf("rolls %q", got)
	}
	w.s.Set.Paused = true // until b is back
	w.pass(time.Second)
	w.s.Set.MaxUnavailable.Value, w.s.Set.Paused = 1, false
	w.node("b").Ready, w.node("b").Since = true, w.s.Now
	w.put("b", 0, false) // its old pod does not work there any more
	reached := ""
	for range 100 {
		w.pass(time.Minute)
		reached += w.roll()
	}
	if len(reached) != 9 {
		t.Errorf("in 100 minutes only %q was updated, in phase %s and wave %s: %s\n%+v", reached, w.out.Status.Phase, w.out.Status.Wave, w.verdicts(), w.out.Status.Blocking)
	}
}
