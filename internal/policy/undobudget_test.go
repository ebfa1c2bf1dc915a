// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// undoneOneByOne is an undo with a limit of one node, during which the pod of the node that returns first does not become available, and may not.
func undoneOneByOne(t *testing.T, begin func(w *world)) *world {
	t.Helper()
	w := newWorld(t, `
waves: [{name: all, nodes: {percent: 100}, soak: 1h}]
failure: {nodeDeadline: 5m, maxFailedNodes: 1, action: Undo}
undo: {maxUnavailable: 1}
`)
	w.pass(0)
	w.roll()
	w.pass(time.Second)
	begin(w)
	w.approve("bad", "", "v2", v1alpha1.UndoRollout)
	w.pass(time.Second)
	w.pass(time.Second)
	first := w.roll()
	if first == "" { // one that was broken before uses up the limit
		first = "j"
	}
	w.fails(first, hangs)
	w.pass(time.Second)
	for range 100 {
		w.pass(5 * time.Minute)
		w.roll()
		w.fails(first, hangs)
	}
	return w
}

// A node that may fail during the undo does not use up the limit of the undo.
func TestATolerantUndoEnds(t *testing.T) {
	w := undoneOneByOne(t, func(*world) {})
	if rest := w.have(1); rest != "" {
		t.Errorf("after 8 hours, %s still have the failed revision: phase %s, blocking %+v %s", rest, w.last.Phase, w.last.Blocking, w.verdicts())
	}
}

// Neither does one where the pod of the committed revision was not available before the undo.
func TestAnUndoWithABrokenNodeEnds(t *testing.T) {
	w := undoneOneByOne(t, func(w *world) { w.put("j", 0, false) })
	if rest := w.have(1); rest != "" {
		t.Errorf("after 8 hours, %s still have the failed revision: phase %s, blocking %+v %s", rest, w.last.Phase, w.last.Blocking, w.verdicts())
	}
}

// If such nodes use up the budget of the set, the status says that.
func TestAnUndoThatTheBudgetHolds(t *testing.T) {
	w := undoneOneByOne(t, func(w *world) { w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1} })
	if w.last.Phase != v1alpha1.PhaseUndoing {
		t.Errorf("phase %s: have %q", w.last.Phase, w.have(1))
	}
	w.say("Budget", "No other node returns: 1 node has no available pod, gets no other one now, and uses up the budget, for maxUnavailable is 1.")
}

// Nor does a node that joins during the undo, and on which the committed revision never works.
func TestAnUndoWithANodeThatNeverWorksEnds(t *testing.T) {
	w := newWorld(t, `
waves: [{name: all, nodes: {percent: 100}, soak: 1h}]
failure: {nodeDeadline: 5m, action: Undo}
undo: {maxUnavailable: 1}
`)
	w.pass(0)
	w.roll()
	w.pass(time.Second)
	w.approve("bad", "", "v2", v1alpha1.UndoRollout)
	w.pass(time.Second)
	w.joins("k")
	w.pass(time.Second)
	w.put("k", 0, true)
	for range 100 {
		w.fails("k", hangs)
		w.pass(5 * time.Minute)
		w.roll()
	}
	if rest := w.have(1); rest != "" {
		t.Errorf("after 8 hours, %s still have the failed revision: phase %s, blocking %+v %s", rest, w.last.Phase, w.last.Blocking, w.verdicts())
	}
}
