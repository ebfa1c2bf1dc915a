// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"
)

// TestAStepThatWaitsForALaterZone: the update has begun on a node of zone 2, and it has its old pod again: its new one was evicted next to it, or another manager did not know that the node should get a new one. A node
// of the same wave joins in zone 1. The step is full, so that node waits for it, and zone 2 comes after zone 1: neither waits for ever.
func TestAStepThatWaitsForALaterZone(t *testing.T) {
	w := newWorld(t, "waves: [{name: all, nodes: {percent: 100}, growth: {start: 1}}]\norder: {topologyKey: zone, domains: OneAtATime}")
	for name := range strings.SplitSeq("abcdefghij", "") {
		w.labels[name] = map[string]string{"zone": "2"}
	}
	w.labels["j"] = map[string]string{"zone": "3"}
	w.pass(time.Second)
	if got := w.roll(); got != "a" {
		t.Fatalf("rolls %q: %s", got, w.verdicts())
	}
	w.pass(0)
	w.put("a", 0, true)
	w.join("k", w.s.Now, 0)
	w.labels["k"] = map[string]string{"zone": "1"}
	w.pass(time.Second)
	if got := w.roll(); got != "a" {
		t.Errorf("rolls %q, want the node that the step waits for: %s", got, w.verdicts())
	}
	for range 20 {
		w.pass(time.Second)
		w.roll()
	}
	if got := w.have(1); got != "abcdefghijk" {
		t.Errorf("only %s have the revision: %s", got, w.verdicts())
	}
}
