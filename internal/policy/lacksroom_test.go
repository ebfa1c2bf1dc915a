// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestAPodThatIsNotScheduled: a scheduler that does not run, and pods of others that use up a node, keep a pod of the committed revision from it too, so they say nothing about the new one, whose wave waits and names the reason.
// Before the change, the revision failed. If the scheduler reads something else of the new pods, or that is not known, the new revision may be at fault. So it is if the pod is scheduled.
func TestAPodThatIsNotScheduled(t *testing.T) {
	alike := func(revision, as int) bool { return revision == 1 && as == 0 }
	for name, c := range map[string]struct {
		alike     func(revision, as int) bool
		scheduled bool
		fails     bool
	}{
		"the scheduler reads the same":    {alike, false, false},
		"it reads something else":         {func(_, _ int) bool { return false }, false, true},
		"it is not known what it reads":   {nil, false, true},
		"it has placed the pod":           {alike, true, true},
		"it has placed it, not known how": {nil, true, true},
	} {
		for _, of := range []string{"nodeDeadline", "waveDeadline"} {
			rules := hurried
			if of == "nodeDeadline" {
				rules = strings.Replace(judged, "maxFailedNodes: 1", "maxFailedNodes: 0", 1)
			}
			w := newWorld(t, rules)
			w.alike = c.alike
			w.pass(0)
			w.want("abc", v1alpha1.PhaseRolling, "canary")
			p := &w.node("a").Pods[0]
			p.Ready, p.Scheduled, p.Phase, p.Pull = false, c.scheduled, rollout.Pending, rollout.NoPull
			w.pass(time.Second)
			if text := w.whyBlocked("PodsNotAvailable"); text != "" {
				t.Errorf("%s, %s: at once: %s", name, of, text)
			}
			for range 20 {
				w.pass(time.Minute)
			}
			if failed := w.last.Failure != nil; failed != c.fails {
				t.Errorf("%s, %s: the failure is %+v", name, of, w.last.Failure)
			} else if !failed && (w.last.Phase != v1alpha1.PhaseRolling || !strings.Contains(w.whyBlocked("PodsNotAvailable"), "a (the scheduler has not placed the pod)")) {
				t.Errorf("%s, %s: the phase is %s: %+v", name, of, w.last.Phase, w.last.Blocking)
			}
		}
	}
}

// TestAnUndoToAPodThatIsNotScheduled: the pod to which an undo returns counts, so that the undo stops.
func TestAnUndoToAPodThatIsNotScheduled(t *testing.T) {
	w := newWorld(t, "{waves: [{name: canary, nodes: {count: 1}, soak: 1h}], failure: {maxRestarts: 0, nodeDeadline: 5m, action: Undo}}")
	w.alike = func(int, int) bool { return true }
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.failOn("a")
	w.pass(time.Second)
	w.pass(time.Second)
	w.want("a", v1alpha1.PhaseUndoing, "canary")
	p := &w.node("a").Pods[0]
	p.Ready, p.Scheduled, p.Phase = false, false, rollout.Pending
	for range 7 {
		w.pass(time.Minute)
	}
	if !blockedBy(w, "UndoFailed") {
		t.Errorf("%s, %+v", w.last.Phase, w.last.Blocking)
	}
}
