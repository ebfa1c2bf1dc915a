// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// TestANodeThatMayFail: a wave soaks and passes without a node that has failed and may, and so does the rollout end, also with a deadline of the wave. The status
// shows the node all the time, in its wave only, and with its reason; and the node counts again when its pod is available.
func TestANodeThatMayFail(t *testing.T) {
	w := canary(t, strings.Replace(judged, "nodeDeadline: 5m", "nodeDeadline: 5m, waveDeadline: 1h", 1))
	w.fails("a", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(time.Minute)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
	for range 24 {
		w.pass(5 * time.Minute)
		w.wantNoFailure()
		w.roll()
		w.fails("a", pulls)
		if wave := w.last.Waves[0]; wave.Failed != 1 || wave.Nodes != 2 || wave.Phase != v1alpha1.WavePassed {
			t.Fatalf("%+v", wave)
		}
		if len(w.last.Waves) > 1 && w.last.Waves[1].Failed != 0 {
			t.Errorf("it counts in another wave: %+v", w.last.Waves[1])
		}
	}
	if w.have(1) != "abcdefghij" || w.last.Phase != v1alpha1.PhaseComplete {
		t.Fatalf("%q have the revision, phase %s, blocking %+v", w.have(1), w.last.Phase, w.last.Blocking)
	}
	if f := w.last.Waves[0].FailedNodes; len(f) != 1 || f[0].Name != "a" || f[0].Reason != "ImagePullBackOff" {
		t.Errorf("the status has %+v", f)
	}
}

// TestOneMoreNodeThanMayFail: when one node may fail and has, the next one in its wave makes the revision fail, also after the wave has passed without the first.
func TestOneMoreNodeThanMayFail(t *testing.T) {
	for name, later := range map[string]time.Duration{"in the soak": time.Second, "after the wave": 2 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, judged)
			w.fails("a", pulls)
			w.pass(time.Second)
			w.pass(later)
			w.wantNoFailure()
			w.fails("c", pulls)
			w.pass(time.Second)
			if f := w.last.Failure; f == nil || f.Wave != "canary" || !strings.HasPrefix(f.Message, "Wave canary failed: 2 of 3 nodes failed, and 1 may fail. Nodes: a (ImagePullBackOff), c") {
				t.Errorf("failure %+v", f)
			}
		})
	}
}

// TestThePercentageOfNodesThatMayFail is of all nodes of the wave, also of those that have failed, and is rounded down: 70% of 3 are 2, and of the one that has not failed it would be 0.
func TestThePercentageOfNodesThatMayFail(t *testing.T) {
	w := canary(t, strings.Replace(judged, "maxFailedNodes: 1", "maxFailedNodes: 70%", 1))
	w.fails("a", pulls)
	w.fails("b", pulls)
	for range 3 {
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseSoaking, "canary")
	}
	w.fails("c", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
}

// TestAFewPercentOfASmallWave are no node, so a canary of one node fails.
func TestAFewPercentOfASmallWave(t *testing.T) {
	w := newWorld(t, strings.NewReplacer("count: 3", "count: 1", "maxFailedNodes: 1", "maxFailedNodes: 99%").Replace(judged))
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.fails("a", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	if f := w.last.Failure; f == nil || !strings.HasPrefix(f.Message, "Wave canary failed: 1 of 1 nodes failed, and 0 may fail.") {
		t.Errorf("failure %+v", f)
	}
}

// TestAFewPercentOfAnUndo are those of all nodes, rounded down too: 9% of 10 nodes is none.
func TestAFewPercentOfAnUndo(t *testing.T) {
	w := canary(t, strings.Replace(judged, "maxFailedNodes: 1", "maxFailedNodes: 9%", 1)+"undo: {maxUnavailable: 1}\n")
	w.fails("a", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.pass(time.Second)
	w.want("a", v1alpha1.PhaseUndoing, "canary")
	w.fails("a", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.say("UndoFailed", "on 1 node the committed revision does not work either, and 0 may fail.")
}

// TestNodesThatMayFailUseUpTheBudget: the status says why nothing starts, and the time does not count for the deadline of the wave.
func TestNodesThatMayFailUseUpTheBudget(t *testing.T) {
	w := newWorld(t, strings.Replace(judged, "nodeDeadline: 5m", "nodeDeadline: 5m, waveDeadline: 1h", 1))
	w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.fails("a", pulls)
	for range 30 {
		w.pass(5 * time.Minute)
		w.want("", v1alpha1.PhaseRolling, "canary")
	}
	w.say("Budget", "No other update starts: 1 node has no available pod, gets no other one now, and uses up the budget, for maxUnavailable is 1. ")
	w.put("a", 1, true)
	w.pass(time.Second)
	w.want("b", v1alpha1.PhaseRolling, "canary")
}

// TestEachNodeOfAWaveMayFail: where none works, nothing shows that the revision does, so the wave waits.
func TestEachNodeOfAWaveMayFail(t *testing.T) {
	w := canary(t, strings.Replace(judged, "maxFailedNodes: 1", "maxFailedNodes: 100%", 1))
	for _, name := range []string{"a", "b", "c"} {
		w.fails(name, pulls)
	}
	for range 3 {
		w.pass(time.Hour)
		w.want("", v1alpha1.PhaseRolling, "canary")
	}
	w.say(policy.NodesLeftOut, "spec.failure.maxFailedNodes allows that")
	w.put("b", 1, true)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
}
