// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestReasonOfARolloutThatEndsWhileANodeIsDown: a node goes down with the revision after its wave has passed. The rollout is not complete without it, and the status says why.
func TestReasonOfARolloutThatEndsWhileANodeIsDown(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}}, {name: rest, nodes: {percent: 100}}]")
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.want("bcdefghij", v1alpha1.PhaseRolling, "rest")
	n := w.node("a")
	n.Ready, n.Since, n.Pods[0].Ready = false, w.s.Now.Add(time.Second), false
	for range 4 {
		w.pass(time.Minute)
	}
	if w.out.Status.Phase != v1alpha1.PhaseRolling {
		t.Fatalf("phase %s", w.out.Status.Phase)
	}
	if !blockedBy(w, "NodesNotReady") || !strings.HasPrefix(w.last.Blocking[0].Message, "The end of the rollout waits for 1 node that is not ready: a (since ") {
		t.Errorf("blocking %+v", w.last.Blocking)
	}
}
