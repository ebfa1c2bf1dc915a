// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestRetryBeforeTheUndoHasEnded: a pod that the undo has just made is not available yet when a user retries the revision. Its node was not broken before: the rollout
// took its pod. So the wave waits for it.
func TestRetryBeforeTheUndoHasEnded(t *testing.T) {
	w := canary(t, judged)
	w.fails("a", pulls)
	w.fails("b", pulls)
	for range 3 {
		w.pass(time.Second)
		w.roll()
		w.fails("a", hangs)
	}
	if p := w.node("a").Pods[0]; p.Revision != 0 {
		t.Fatalf("a has revision %d in the phase %s", p.Revision, w.last.Phase)
	}
	w.approve("retry", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "")
	for range 3 {
		w.pass(time.Second)
		w.roll()
		w.fails("a", hangs)
	}
	w.pass(2 * time.Minute)
	w.want("", v1alpha1.PhaseRolling, "canary")
	if wave := w.last.Waves[0]; wave.Nodes != 3 || len(w.last.NotReadyBefore) > 0 {
		t.Errorf("the wave has %d nodes, and %v were not ready before", wave.Nodes, w.last.NotReadyBefore)
	}
}

// TestRetryBeforeTheUndoHasEndedAndTheNodeBreaksLater: when the pod of the committed revision has become available after the retry, and breaks before the update of its
// node, the node was broken before.
func TestRetryBeforeTheUndoHasEndedAndTheNodeBreaksLater(t *testing.T) {
	for name, works := range map[string]bool{"it becomes available": true, "it never does": false} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, judgedStrictly())
			w.fails("a", pulls)
			w.pass(time.Second)
			w.pass(time.Second)
			w.roll()
			w.fails("b", hangs)
			w.pass(time.Second)
			w.s.Set.Paused = true
			w.approve("retry", "", "v2", v1alpha1.Retry)
			w.pass(time.Second)
			w.pass(time.Second)
			if works {
				w.put("b", 0, true)
			}
			w.pass(time.Hour)
			w.fails("b", hangs)
			w.pass(time.Hour)
			w.s.Set.Paused = false
			w.pass(time.Second)
			w.want("bac", v1alpha1.PhaseRolling, "canary")
			w.fails("b", pulls)
			w.pass(time.Second)
			w.pass(time.Second)
			if failed := w.last.Failure != nil; failed == works {
				t.Errorf("failure %+v, not ready before %v", w.last.Failure, w.last.NotReadyBefore)
			}
		})
	}
}

// TestARetryOfPodsThatStillFail: a retry does not count why pods wait already, until nodeDeadline has passed. The help of retry states that.
func TestARetryOfPodsThatStillFail(t *testing.T) {
	w := canary(t, strings.Replace(judged, "Undo", "Pause", 1))
	w.fails("a", pulls)
	w.fails("b", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.approve("retry", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.pass(time.Second)
	w.pass(5*time.Minute - time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.pass(2 * time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
}

// retried is a rollout that had failed on three nodes, and that a user retries.
func retried(t *testing.T, fail func(*rollout.Pod)) *world {
	t.Helper()
	w := canary(t, strings.Replace(judgedStrictly(), "Undo", "Pause", 1))
	for _, name := range []string{"a", "b", "c"} {
		w.fails(name, fail)
	}
	w.pass(time.Second)
	w.pass(10 * time.Minute)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.approve("retry", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
	return w
}

// TestABadVersionIsRetried: from the retry on, the revision is judged as if it had just come to the nodes: it fails again if it is still bad, also under another manager.
func TestABadVersionIsRetried(t *testing.T) {
	for name, lead := range map[string]bool{"the same manager": false, "another manager": true} {
		t.Run(name, func(t *testing.T) {
			for fault, fail := range map[string]func(*rollout.Pod){"hangs": hangs, "waits": pulls} {
				w := retried(t, fail)
				w.restored = lead
				w.pass(time.Second)
				w.pass(4*time.Minute + 57*time.Second)
				w.want("", v1alpha1.PhaseRolling, "canary")
				w.pass(3 * time.Second)
				if w.want("", v1alpha1.PhaseFailed, "canary"); w.last.Failure == nil {
					t.Errorf("%s: %+v", fault, w.last)
				}
			}
			w := retried(t, restarts)
			w.restored = lead
			w.pass(time.Second)
			w.node("a").Pods[0].Restarts += 3
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseRolling, "canary")
			w.node("a").Pods[0].Restarts++
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseFailed, "canary")
		})
	}
}

// TestTheNextPodAfterARetry: a pod that is created after the retry is judged at once.
func TestTheNextPodAfterARetry(t *testing.T) {
	w := retried(t, pulls)
	w.put("a", 1, false)
	w.node("a").Pods[0].UID = "a-2"
	w.fails("a", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
}

// TestRetryWithANodeThatNeverWorked: a node that has joined, and where nothing has ever worked, does not count after a retry either.
func TestRetryWithANodeThatNeverWorked(t *testing.T) {
	w := canary(t, strings.Replace(judgedTwice, "Undo", "Pause", 1)+"joiningNodes: Latest\n")
	w.joins("k")
	w.pass(time.Second)
	w.roll()
	w.fails("k", hangs)
	w.fails("a", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.put("a", 1, true)
	w.approve("retry", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	for range 6 {
		w.pass(5 * time.Minute)
		w.roll()
	}
	if w.last.Failure != nil || w.last.Phase != v1alpha1.PhaseComplete {
		t.Errorf("phase %s, failure %+v", w.last.Phase, w.last.Failure)
	}
}

// TestTwoBadVersions: a pod of a version that did no good is unavailable when the next version comes. Its node was not broken before, so the next version fails there as
// well, also under another manager.
func TestTwoBadVersions(t *testing.T) {
	for name, lead := range map[string]bool{"the same manager": false, "another manager": true} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, strings.Replace(judged, "Undo", "Pause", 1))
			for _, node := range []string{"a", "b"} {
				w.fails(node, pulls)
			}
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseFailed, "canary")
			w.change("v3")
			if lead {
				w.lead()
			}
			for range 3 {
				w.pass(time.Second)
				w.roll()
				for _, node := range []string{"a", "b"} {
					w.fails(node, pulls)
				}
			}
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseFailed, "canary")
		})
	}
}

// TestBrokenBeforeTwoVersions: a node that was broken before the first of two versions fails neither of them.
func TestBrokenBeforeTwoVersions(t *testing.T) {
	for name, lead := range map[string]bool{"the same manager": false, "another manager": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, strings.Replace(judged, "maxFailedNodes: 1", "maxFailedNodes: 0", 1))
			w.fails("a", hangs)
			for range 3 {
				w.pass(time.Second)
				w.roll()
				w.fails("a", pulls)
			}
			w.change("v3")
			if lead {
				w.lead()
			}
			for range 4 {
				w.pass(time.Second)
				w.roll()
				w.fails("a", pulls)
			}
			if w.pass(time.Second); w.last.Failure != nil || w.last.Phase == v1alpha1.PhaseFailed {
				t.Errorf("phase %s: %+v", w.last.Phase, w.last.Failure)
			}
		})
	}
}

// TestANewVersionWhilePodsTerminate: the update to one version has deleted pods that were available, and they are terminating when the next version comes. Their nodes were
// not broken before.
func TestANewVersionWhilePodsTerminate(t *testing.T) {
	w := newWorld(t, strings.Replace(judged, "Undo", "Pause", 1))
	w.pass(time.Second)
	for _, node := range []string{"a", "b"} {
		w.node(node).Pods[0].Deleting = true
	}
	w.change("v3")
	w.pass(time.Second)
	for range 3 {
		w.pass(time.Second)
		w.roll()
		for _, node := range []string{"a", "b"} {
			if w.node(node).Pods[0].Deleting {
				w.put(node, w.s.Set.Update, false)
			}
			w.fails(node, pulls)
		}
	}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
}
