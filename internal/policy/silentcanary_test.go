// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestWaveDeadlineWithoutAnswers: pods of a canary that pull their image for ever have no metrics, so its analysis has no answer. The policy is stalled after unknownDeadline because of that; but
// the updates have begun, so the wave is late after waveDeadline all the same.
func TestWaveDeadlineWithoutAnswers(t *testing.T) {
	w := newWorld(t, `
analyses: [{name: errors, provider: main, query: errors, interval: 1m, success: "result < 0.01", unknownDeadline: 30m}]
waves: [{name: canary, nodes: {count: 3}, soak: 10m, analysis: [errors]}]
failure: {waveDeadline: 2h, action: Undo}
`)
	w.pass(0)
	w.roll()
	for _, name := range []string{"a", "b", "c"} {
		w.put(name, 1, false)
		p := &w.node(name).Pods[0]
		p.Phase, p.Pull = rollout.Pending, rollout.Pulls
	}
	w.pass(time.Second)
	for range 31 {
		w.answer("errors", unknown)
		w.pass(time.Minute)
	}
	w.want("", v1alpha1.PhaseStalled, "canary")
	for range 120 {
		w.pass(time.Minute)
	}
	if w.last.Failure == nil {
		t.Fatalf("after more than two hours: %s, %+v\n%+v", w.last.Phase, w.last.Blocking, w.last.Waves)
	}
}
