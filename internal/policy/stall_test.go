// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestAStallForgetsNoWave: a wave that selects no node, and comes before others that have passed, stops the rollout, and they have passed all the same.
func TestAStallForgetsNoWave(t *testing.T) {
	const waves = "{name: first, nodes: {count: 1}, soak: 1h}, {name: second, nodes: {count: 1}}]"
	w := newWorld(t, "waves: ["+waves)
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "first")
	w.put("a", 1, true)
	w.pass(0)
	w.pass(time.Hour)
	w.want("b", v1alpha1.PhaseRolling, "second")
	fine := w.policies
	w.policies = []*policy.Policy{read(t, "waves: [{name: empty, nodes: {selector: {matchLabels: {pool: none}}}}, "+waves)}
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseStalled, "empty")
	if got := w.wave("first"); got.Phase != v1alpha1.WavePassed || got.Updated != 1 {
		t.Errorf("the first wave is %+v", got)
	}
	if n := len(w.out.Status.Waves); n != 4 {
		t.Errorf("the status has %d waves: %+v", n, w.out.Status.Waves)
	}
	w.lead() // the next manager knows only the status
	w.policies = fine
	w.pass(time.Minute)
	w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
}
