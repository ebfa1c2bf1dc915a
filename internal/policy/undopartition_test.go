// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// A partition keeps nodes from a revision, but keeps none on it when it has failed.
func TestUndoOfASetWithAPartition(t *testing.T) {
	w := newWorld(t, judgedStrictly())
	w.s.Set.Partition = rollout.Quantity{Value: 7}
	w.pass(0)
	w.roll()
	bad := w.have(1)
	w.pass(time.Second)
	w.fails(bad[:1], pulls)
	for range 20 {
		w.pass(time.Minute)
		w.roll()
	}
	if got := w.have(1); got != "" {
		t.Errorf("%q had the revision, and %q still have it: %s %+v\n%s", bad, got, w.last.Phase, w.last.Blocking, w.verdicts())
	}
}
