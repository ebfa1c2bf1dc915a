// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
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

// TestUndoLeavesNodesThatTheSetKeeps: a partition or the selector of the set keeps some nodes on a version that is older than the committed one. The revision that has failed has never reached
// them, so its undo does not update them either. If that older revision has failed, they return.
func TestUndoLeavesNodesThatTheSetKeeps(t *testing.T) {
	limits := map[string]func(w *world){
		"a selector": func(w *world) {
			w.s.Set.Selective = true
			for i := range w.s.Nodes {
				w.s.Nodes[i].Selected = !strings.Contains("ij", w.s.Nodes[i].Name)
			}
		},
		"a partition": func(w *world) { w.s.Set.Partition.Value = 2 },
	}
	for name, limit := range limits {
		for _, newer := range []bool{false, true} {
			w := newWorld(t, judgedStrictly())
			w.s.Revisions = append([]rollout.Revision{{Name: "v0"}}, w.s.Revisions...)
			w.marks, w.failed, w.s.Set.Update = []int64{0, 1, 0}, []*everynode.Failure{nil, nil}, 2
			kept := "ij"
			if newer {
				w.s.Revisions[0].Number, w.s.Revisions[2].Number, kept = 2, 3, ""
			}
			for i := range w.s.Nodes {
				w.s.Nodes[i].Pods[0].Revision = 1
			}
			w.node("i").Pods[0].Revision, w.node("j").Pods[0].Revision = 0, 0
			limit(w)
			w.pass(0)
			w.roll()
			if bad := w.have(2); bad != "abc" {
				t.Fatalf("%s: %q have the revision", name, bad)
			}
			w.pass(time.Second)
			w.fails("a", pulls)
			for range 9 {
				w.pass(time.Minute)
				w.roll()
			}
			if w.have(0) != kept || w.have(2) != "" {
				t.Errorf("%s, newer %v: %q have v0, and %q the failed revision: %s %+v", name, newer, w.have(0), w.have(2), w.last.Phase, w.last.Blocking)
			}
		}
	}
}

// TestUndoByTheTemplateOfASetWithLimits: if the template describes the committed revision again, the set itself may keep nodes from returning, and the status says so.
func TestUndoByTheTemplateOfASetWithLimits(t *testing.T) {
	for reason, limit := range map[string]func(set *rollout.Set){
		"Paused":    func(set *rollout.Set) { set.Paused = true },
		"Partition": func(set *rollout.Set) { set.Partition.Value = 10 },
		"Selector":  func(set *rollout.Set) { set.Selective = true },
	} {
		t.Run(reason, func(t *testing.T) {
			w := canary(t, judgedStrictly())
			limit(&w.s.Set)
			w.templateIs(0, 3)
			w.pass(time.Minute)
			w.want("", v1alpha1.PhaseUndoing, "")
			w.say(reason, "The ")
			w.s.Set.Limits = rollout.Limits{}
			w.pass(time.Second)
			if w.want("abc", v1alpha1.PhaseUndoing, ""); len(w.last.Blocking) > 0 {
				t.Errorf("%+v", w.last.Blocking)
			}
		})
	}
}
