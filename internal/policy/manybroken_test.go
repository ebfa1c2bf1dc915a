// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestManyNodesBrokenBefore: the status has no room for the names of all nodes that were broken before, and another manager goes on. A good version does not fail.
func TestManyNodesBrokenBefore(t *testing.T) {
	w := newWorld(t, "waves: [{name: all, nodes: {percent: 100}, soak: 1h}]\nfailure: {nodeDeadline: 5m, maxFailedNodes: 0, action: Undo}\n")
	w.s.Set.MaxUnavailable.Value = 400
	breaks := func() {
		for i := range 300 {
			w.fails(fmt.Sprintf("m%03d", i), hangs)
		}
	}
	for i := range 300 {
		w.join(fmt.Sprintf("m%03d", i), 0, 0)
	}
	breaks()
	w.pass(0)
	w.remember()
	for range 3 {
		w.pass(time.Second)
		w.remember()
		w.roll()
		breaks()
	}
	w.pass(time.Second)
	w.restored = true
	w.pass(time.Second)
	w.restored = false
	w.pass(5 * time.Minute)
	w.pass(time.Second)
	if n := len(w.last.NotReadyBefore); w.last.Failure != nil || n != 256 {
		t.Errorf("the failure is %+v, and %d nodes are named", w.last.Failure, n)
	}
	w.fails("a", hangs) // one that was well
	w.pass(time.Second)
	w.pass(5 * time.Minute)
	w.pass(time.Second)
	if w.last.Failure == nil || w.last.Failure.Action != v1alpha1.FailureUndo {
		t.Errorf("a node that was well breaks, and the failure is %+v", w.last.Failure)
	}
}
