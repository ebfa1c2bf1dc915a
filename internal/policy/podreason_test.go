// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestReasonOfAWaveWhosePodsDoNotStart: without spec.failure, too, the status says why the active wave waits.
func TestReasonOfAWaveWhosePodsDoNotStart(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 4}}]")
	w.pass(0)
	w.want("abcd", v1alpha1.PhaseRolling, "canary")
	w.put("a", 1, false)
	w.pass(time.Second)
	if len(w.last.Blocking) > 0 {
		t.Errorf("while a pod starts: blocking %+v", w.last.Blocking)
	}
	p := &w.node("a").Pods[0]
	p.Waiting, p.Ended, p.ExitCode, p.Restarts = rollout.WaitingFor("CrashLoopBackOff"), rollout.EndingFor("Error"), 3, 2
	w.put("b", 1, false)
	w.node("b").Pods[0].Waiting = rollout.WaitingFor("ErrImagePull")
	w.node("c").Pods, w.node("c").Last, w.node("c").Blocked = nil, 1, "the quota is used up"
	w.node("e").Pods, w.node("e").Blocked = nil, "the quota is used up" // of a later wave
	w.pass(time.Second)
	want := "The wave canary waits for an available pod on 3 nodes: a (CrashLoopBackOff, exit code 3), b (ImagePullBackOff), c (the quota is used up). " +
		"Read the events and the logs of these pods, and correct the template or what keeps the pods from starting."
	if b := w.last.Blocking; len(b) != 1 || b[0].Reason != "PodsNotAvailable" || b[0].Message != want {
		t.Errorf("blocking %+v, want %q", b, want)
	}
	for _, name := range []string{"a", "b", "c"} {
		w.put(name, 1, true)
	}
	w.put("e", 0, true)
	if w.pass(time.Second); blockedBy(w, "PodsNotAvailable") {
		t.Errorf("when the pods are available: blocking %+v", w.last.Blocking)
	}
}

// TestReasonOfANodeThatIsNotReady: the pod is not the reason there.
func TestReasonOfANodeThatIsNotReady(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}}]")
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.kills("a")
	w.node("a").Pods[0].Waiting = rollout.WaitingFor("CrashLoopBackOff")
	w.pass(time.Second)
	if b := w.last.Blocking; len(b) != 1 || b[0].Reason != "NodesNotReady" {
		t.Errorf("blocking %+v", b)
	}
}
