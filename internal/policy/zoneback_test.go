// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestOrderOfANodeThatComesBack: while a zone is being updated, no update starts in another one, also not on a node of an earlier zone, or of a wave that has passed, that was not
// ready at its turn.
func TestOrderOfANodeThatComesBack(t *testing.T) {
	for wave, waves := range map[string]string{"remaining": "", "canary": "waves: [{name: canary, nodes: {count: 2}}]\n"} {
		w := newWorld(t, waves+"order: {topologyKey: zone, domains: OneAtATime}\nunreachableAfter: 1m")
		for name := range strings.SplitSeq("abcdefghij", "") {
			w.labels[name] = map[string]string{"zone": "2"}
		}
		w.labels["a"], w.labels["b"] = map[string]string{"zone": "1"}, map[string]string{"zone": "1"}
		w.isCut("b")
		w.s.Set.MaxUnavailable.Value = 3
		w.pass(0)
		w.want("a", v1alpha1.PhaseRolling, wave)
		w.pass(time.Second)
		if got := w.roll(); !strings.HasPrefix(got, "c") {
			t.Fatal(got, w.verdicts())
		}
		w.put("c", 1, false) // zone 2 is at work
		w.node("b").Ready, w.node("b").Since = true, w.s.Now
		w.put("b", 0, true)
		w.pass(time.Second)
		if got := w.roll(); strings.Contains(got, "b") {
			t.Errorf("%s: while c of zone 2 is being updated, %s of zone 1 starts", wave, got)
		}
	}
}
