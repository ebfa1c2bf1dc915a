// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// alone is a rollout next to another controller, which is the only one that knows why it creates no pod.
func alone(t *testing.T, update int) *world {
	t.Helper()
	w := newWorld(t, strings.Replace(judgedTwice, "action: Undo", "action: Pause", 1))
	w.s.Set.ExternalController, w.s.Set.Update = true, update
	w.pass(0)
	return w
}

// Next to another controller, a node that gets no pod of the revision fails as well.
func TestANodeThatGetsNoPodOfAnotherController(t *testing.T) {
	w := alone(t, 1)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.node("a").Pods, w.node("a").Last = nil, 0 // deleted, and the API server refuses the next one
	w.pass(time.Second)
	w.pass(4*time.Minute + 59*time.Second)
	w.wantNoFailure()
	if w.pass(time.Second); w.last.Failure == nil {
		t.Fatalf("%s %+v", w.last.Phase, w.last.Waves[0])
	}
	if got := w.last.Waves[0].FailedNodes[0]; got.Reason != "NotAvailable" || got.Message != "The node has had no pod for 5m0s: see the events of the daemon set for the reason why the other controller creates none." {
		t.Errorf("it says %+v", got)
	}
}

// A node that is not ready, or gets its pod in time, does not.
func TestANodeThatGetsAPodOfAnotherControllerInTime(t *testing.T) {
	w := alone(t, 1)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.node("a").Pods, w.node("a").Ready, w.node("a").Since = nil, false, w.s.Now
	w.pass(time.Second)
	w.pass(time.Hour)
	w.node("a").Ready = true
	w.pass(time.Second)
	w.pass(4 * time.Minute)
	w.put("a", 1, true)
	w.pass(time.Second)
	w.pass(2 * time.Minute)
	w.wantNoFailure()
}

// A node that has had no pod since before the rollout was broken before: the waves go on without it after some time.
func TestANodeThatHadNoPodOfAnotherControllerBefore(t *testing.T) {
	w := alone(t, 0)
	w.node("a").Pods, w.node("a").Last = nil, 0
	w.pass(time.Second)
	w.s.Set.Update = 1
	w.pass(time.Hour) // nothing asks for a decision
	w.want("bc", v1alpha1.PhaseRolling, "canary")
	w.wantBrokenBefore("a")
	for range 8 {
		w.pass(time.Minute)
		w.roll()
	}
	if w.wantNoFailure(); w.have(1) != "bcdefghij" {
		t.Errorf("%q have the revision: %s %+v", w.have(1), w.last.Phase, w.last.Waves)
	}
	w.wantBrokenBefore("a")
}
