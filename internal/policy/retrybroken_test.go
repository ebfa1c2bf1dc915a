// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
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
