// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// TestAnUndoThatFailsWhereTheClockIsFast: the clock of the manager is ahead of that of the API server when the revision fails, so the pods that the undo creates look older than the failure. The
// manager has seen that they are new ones, so they count.
func TestAnUndoThatFailsWhereTheClockIsFast(t *testing.T) {
	w, first := allUndone(t)
	p := &w.node(first).Pods[0]
	p.UID, p.Created = "new", p.Created.Add(-time.Hour)
	for range 6 {
		w.pass(time.Minute)
	}
	if !policy.UndoStopped(w.last) {
		t.Errorf("phase %s: %+v", w.last.Phase, w.last.Blocking)
	}
}

// TestAnUndoThatFailsUnderOtherManagers: the pods that an undo has created count for the next manager, too, which measures their time again: otherwise each one would let the undo go on to
// further nodes.
func TestAnUndoThatFailsUnderOtherManagers(t *testing.T) {
	w, first := allUndone(t)
	for range 3 {
		w.lead()
		for range 6 {
			w.pass(time.Minute)
			if more := w.roll(); more != "" {
				t.Fatalf("%q return, although the committed revision does not work on node %s: %+v", more, first, w.last.Blocking)
			}
		}
		if !policy.UndoStopped(w.last) {
			t.Fatalf("phase %s: %+v", w.last.Phase, w.last.Blocking)
		}
	}
	w.lead()
	w.put(first, 0, true)
	w.pass(time.Minute)
	if w.roll() == "" {
		t.Errorf("the undo does not go on: %s", w.verdicts())
	}
}

// TestAnUndoThatReplacesAllPodsAtOnce: an undo has not ended before the pods that it has created are available, or have failed: that they exist does not show that the committed revision works.
func TestAnUndoThatReplacesAllPodsAtOnce(t *testing.T) {
	for name, c := range map[string]struct{ lead, refused, works bool }{
		"they fail": {}, "they fail under another manager": {lead: true}, "they cannot be created": {refused: true}, "they work": {works: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, judgedStrictly())
			w.fails("a", pulls)
			w.pass(time.Second)
			w.pass(time.Second)
			w.want("abc", v1alpha1.PhaseUndoing, "canary")
			for _, name := range []string{"a", "b", "c"} {
				w.fails(name, hangs)
				w.node(name).Pods[0].UID = "back-" + name
				if c.refused {
					n := w.node(name)
					n.Pods, n.Last, n.Refusal = nil, 0, &rollout.Refusal{Denied: true, Message: "no", RetryAt: rollout.EndOfTime}
				}
			}
			if c.lead {
				w.lead()
			}
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseUndoing, "canary")
			if c.works {
				for _, name := range []string{"a", "b", "c"} {
					w.put(name, 0, true)
				}
				w.pass(time.Second)
				w.want("", v1alpha1.PhaseFailed, "canary")
				w.say("Failed", "The nodes have returned to the committed revision.")
				return
			}
			w.pass(5 * time.Minute)
			w.want("", v1alpha1.PhaseFailed, "canary")
			w.say("UndoFailed", "on 3 nodes the committed revision does not work either")
			if slices.Contains(w.events, policy.ReasonRolloutUndoEnded) {
				t.Errorf("events %v", w.events)
			}
		})
	}
}
