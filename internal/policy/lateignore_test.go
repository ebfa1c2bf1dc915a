// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestALateNodeWaitsForAWindowAlsoIfAnUndoDoesNot: undo.ignoreWindows lets nodes return from a revision that is undone. A node that was left out of a rollout and comes back with an old pod gets the revision of that
// rollout: it waits for a window, like each start. The same holds for a node that only kept its pod.
func TestALateNodeWaitsForAWindowAlsoIfAnUndoDoesNot(t *testing.T) {
	const closed = "undo: {ignoreWindows: true}\nunreachableAfter: 1m\nwindows: [{schedule: '0 0 1 1 *', duration: 1s}]"
	for name, c := range map[string]struct {
		away, back func(w *world, n *rollout.Node)
	}{
		"it was not ready": {
			func(w *world, n *rollout.Node) { n.Ready, n.Since = false, w.s.Now.Add(-time.Hour) },
			func(w *world, n *rollout.Node) { n.Ready, n.Since = true, w.s.Now },
		},
		"it only kept its pod": {
			func(w *world, n *rollout.Node) { n.Fit, w.s.Set.EligibleOnly = rollout.MayStay, true },
			func(w *world, n *rollout.Node) { n.Fit = rollout.MustRun },
		},
	} {
		w := newWorld(t, "undo: {ignoreWindows: true}\nunreachableAfter: 1m")
		j := w.node("j")
		c.away(w, j)
		w.s.Set.Unreachable.Skip = true
		for range 5 {
			w.pass(time.Second)
			w.roll()
		}
		if w.last.Phase != v1alpha1.PhaseComplete || w.have(1) != "abcdefghi" {
			t.Fatalf("%s: %s, %q have the revision", name, w.last.Phase, w.have(1))
		}
		w.policies = append(w.policies[:0], read(t, closed))
		c.back(w, j)
		for _, restart := range []bool{false, false, true, false} {
			w.restored = restart
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseWaitingForWindow, "")
			w.opens("2028-01-01T00:00:00Z")
		}
		if got := w.whyBlocked("Window"); got == "" || strings.Contains(got, "ignoreWindows") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestAnUndoThatWasSuspendedIgnoresWindows: nodes with a newer revision than the committed one return, also after the policy was suspended, which the status does not call an undo any more.
func TestAnUndoThatWasSuspendedIgnoresWindows(t *testing.T) {
	w := newWorld(t, "undo: {ignoreWindows: true}\nwaves: [{name: canary, nodes: {count: 2}, soak: 1h}]")
	w.pass(time.Second)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.s.Set.Update, w.s.Revisions[0].Number = 0, 3
	w.policies = append(w.policies[:0], read(t, "suspend: true\nundo: {ignoreWindows: true}\nwindows: [{schedule: '0 0 1 1 *', duration: 1s}]"))
	for range 3 {
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseSuspended, "")
	}
	w.policies = append(w.policies[:0], read(t, "undo: {ignoreWindows: true}\nwindows: [{schedule: '0 0 1 1 *', duration: 1s}]"))
	w.pass(time.Second)
	if got := w.roll(); got != "ab" {
		t.Errorf("rolls %q: %s", got, w.verdicts())
	}
}

// TestALateNodeWaitsWhileOthersReturn: while a node that missed the rollout waits for a window, and others return from a newer revision, the phase is that of the nodes that return.
func TestALateNodeWaitsWhileOthersReturn(t *testing.T) {
	const ignores = "undo: {ignoreWindows: true}\nwaves: [{name: canary, nodes: {count: 2}, soak: 1h}]"
	w := newWorld(t, ignores)
	w.pass(time.Second)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.put("j", rollout.NoRevision, true) // it has missed the rollout of v1, and its revision is gone
	w.pass(time.Second)
	w.s.Set.Update, w.s.Revisions[0].Number = 0, 3
	w.policies = append(w.policies[:0], read(t, "suspend: true\n"+ignores)) // after that, the status does not call it an undo
	w.pass(time.Second)
	w.policies = append(w.policies[:0], read(t, ignores+"\nwindows: [{schedule: '0 0 1 1 *', duration: 1s}]"))
	w.pass(time.Second)
	w.want("ab", v1alpha1.PhaseRolling, "")
	if got := w.verdicts(); !strings.Contains(got, "j:wait-window") || w.whyBlocked("Window") == "" {
		t.Errorf("%s, %+v", got, w.last.Blocking)
	}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseWaitingForWindow, "")
}

// TestAnUndoIgnoresWindowsAlsoWithoutTheRevision: nodes return from a revision that has failed also if another account has deleted its ControllerRevision, so that it is not known when that was made.
func TestAnUndoIgnoresWindowsAlsoWithoutTheRevision(t *testing.T) {
	w := newWorld(t, "{waves: [{name: canary, nodes: {count: 2}}], failure: {maxRestarts: 0, action: Undo}, undo: {ignoreWindows: true}, windows: [{schedule: '* * * * *', duration: 1m}]}")
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.put("b", rollout.NoRevision, true)
	w.failOn("a")
	w.pass(time.Second)
	w.policies = append(w.policies[:0], read(t, "{waves: [{name: canary, nodes: {count: 2}}], failure: {maxRestarts: 0, action: Undo}, undo: {ignoreWindows: true}, windows: [{schedule: '0 0 1 1 *', duration: 1s}]}"))
	w.pass(time.Second)
	w.want("ab", v1alpha1.PhaseUndoing, "canary")
}
