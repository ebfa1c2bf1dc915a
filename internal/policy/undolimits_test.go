// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"
)

// TestUndoOfASetWithLimits: a partition and the selector of an Advanced DaemonSet keep nodes from a revision, but keep none on it when it has failed. Users also set them when pods begin to crash,
// to stop the bad version.
func TestUndoOfASetWithLimits(t *testing.T) {
	narrow := func(w *world, nodes string) {
		w.s.Set.Selective = true
		for i := range w.s.Nodes {
			w.s.Nodes[i].Selected = strings.Contains(nodes, w.s.Nodes[i].Name)
		}
	}
	for name, limit := range map[string]struct{ before, later func(w *world) }{
		"a partition":             {func(w *world) { w.s.Set.Partition.Value = 7 }, func(*world) {}},
		"a partition later":       {func(*world) {}, func(w *world) { w.s.Set.Partition.Value = 10 }},
		"a selector":              {func(w *world) { narrow(w, "abc") }, func(*world) {}},
		"a selector that narrows": {func(w *world) { narrow(w, "abc") }, func(w *world) { narrow(w, "") }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, judgedStrictly())
			limit.before(w)
			w.pass(0)
			w.roll()
			bad := w.have(1)
			limit.later(w)
			w.pass(time.Second)
			w.fails(bad[:1], pulls)
			for range 20 {
				w.pass(time.Minute)
				w.roll()
			}
			if got := w.have(1); got != "" {
				t.Errorf("%q had the revision, and %q still have it: %s %+v\n%s", bad, got, w.last.Phase, w.last.Blocking, w.verdicts())
			}
		})
	}
}
