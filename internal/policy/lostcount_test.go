// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// TestRestartsThatAKubeletForgets: a kubelet that has lost its containers, for example because the disk of the node was cleaned, counts their restarts from 0 again. Those that did not count, because
// they were before a retry, hide none of the later ones.
func TestRestartsThatAKubeletForgets(t *testing.T) {
	w := canary(t, `
waves: [{name: canary, nodes: {count: 3}, soak: 1h}]
failure: {nodeDeadline: 24h, maxRestarts: 3}
`)
	w.fails("a", func(p *rollout.Pod) { p.Restarts = 40 })
	w.pass(time.Second)
	w.pass(time.Second)
	if w.last.Failure == nil {
		t.Fatalf("%+v", w.last)
	}
	w.approve("again", "", "v2", "Retry")
	w.pass(time.Second)
	w.pass(time.Second)
	w.node("a").Pods[0].Restarts = 0
	w.pass(time.Second)
	for range 20 {
		w.node("a").Pods[0].Restarts++
		w.pass(time.Second)
	}
	if w.last.Failure == nil {
		t.Errorf("after 20 restarts: %s, %+v", w.last.Phase, w.last.Blocking)
	}
}
