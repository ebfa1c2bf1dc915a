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

// TestZonesOfAPassedWave: a wave with a selector alone has its nodes also after it has passed. One that was left out and comes back in another zone does not start together with the active
// wave, nor while that is at work, and two of different zones do not start together.
func TestZonesOfAPassedWave(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {selector: {matchLabels: {canary: 'true'}}}}, {name: rest, nodes: {percent: 100}, soak: 1h}]\norder: {topologyKey: zone, domains: OneAtATime}\nunreachableAfter: 1m")
	for name := range strings.SplitSeq("abcdefghij", "") {
		w.labels[name] = map[string]string{"zone": "3"}
	}
	w.labels["a"] = map[string]string{"zone": "3", "canary": "true"}
	w.labels["b"], w.labels["c"] = map[string]string{"zone": "1", "canary": "true"}, map[string]string{"zone": "2", "canary": "true"}
	w.isCut("b")
	w.isCut("c")
	w.s.Set.MaxUnavailable.Value = 4
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	back := func(name string) {
		w.node(name).Ready, w.node(name).Since = true, w.s.Now
		w.put(name, 0, true)
	}
	w.pass(time.Second)
	if got := w.roll(); got != "de" {
		t.Fatalf("rolls %q: %s", got, w.verdicts())
	}
	back("b")
	back("c")
	w.pass(time.Second)
	if got := w.roll(); got != "fghi" {
		t.Errorf("with the active wave in zone 3, %q starts: %s", got, w.verdicts())
	}
	w.put("i", 1, false) // zone 3 is at work
	w.pass(time.Second)
	if got := w.roll(); got != "j" {
		t.Errorf("while i of zone 3 is being updated, %q starts: %s", got, w.verdicts())
	}
	w.pass(time.Second)
	if got := w.roll(); got != "" {
		t.Errorf("while only i of zone 3 is being updated, %q starts: %s", got, w.verdicts())
	}
	w.put("i", 1, true)
	w.pass(time.Second)
	if got := w.roll(); got != "b" {
		t.Errorf("of the zones 1 and 2, %q starts: %s", got, w.verdicts())
	}
	w.put("b", 1, false)
	w.pass(time.Second)
	if got := w.roll(); got != "" {
		t.Errorf("while b of zone 1 is being updated, %q starts: %s", got, w.verdicts())
	}
	w.put("b", 1, true)
	w.pass(time.Second)
	if got := w.roll(); got != "c" {
		t.Errorf("after zone 1, %q starts: %s", got, w.verdicts())
	}
}

// TestZoneOfANodeThatIsStillLeftOut: a node of a wave that has passed, which is not ready, but can be updated, waits for its zone too. It does not hold other nodes of waves that have passed.
func TestZoneOfANodeThatIsStillLeftOut(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {selector: {matchLabels: {canary: 'true'}}}}, {name: rest, nodes: {percent: 100}, soak: 1h}]\norder: {topologyKey: zone, domains: OneAtATime}\nunreachableAfter: 1m")
	for name := range strings.SplitSeq("abcdefghij", "") {
		w.labels[name] = map[string]string{"zone": "3"}
	}
	w.labels["a"] = map[string]string{"zone": "3", "canary": "true"}
	w.labels["b"], w.labels["c"] = map[string]string{"zone": "1", "canary": "true"}, map[string]string{"zone": "2", "canary": "true"}
	w.isCut("b")
	w.isCut("c")
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.want("defghij", v1alpha1.PhaseRolling, "rest")
	w.put("d", 1, false) // zone 3 is at work
	w.put("b", 0, false)
	w.put("c", 0, true)
	w.node("c").Ready, w.node("c").Since = true, w.s.Now
	w.pass(time.Second)
	if got := w.roll(); got != "" {
		t.Errorf("while d of zone 3 is being updated, %q starts: %s", got, w.verdicts())
	}
	w.put("d", 1, true)
	w.pass(time.Second)
	if got := w.roll(); got != "c" {
		t.Errorf("of b, which is left out, and c, %q starts: %s", got, w.verdicts())
	}
	w.pass(time.Second)
	if got := w.roll(); got != "b" {
		t.Errorf("after c, %q starts: %s", got, w.verdicts())
	}
}
