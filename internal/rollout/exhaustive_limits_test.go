// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

// limitedSets are sets with limits, hooks and changes in place.
func limitedSets() []string {
	return []string{
		"set partition=1",
		"set partition=50% descending max-unavailable=2 progressive",
		"set paused in-place; in-place v1",
		"set selective partition=1 in-place; in-place v1",
		"set in-place close-gate max-unavailable=2; in-place v1; hooked",
		"set in-place grace=3s partition=1; in-place v1",
		"set in-place min-ready=2s max-replacing=1; in-place v1=field-ref; hooked",
		"set in-place burst=1 max-unavailable=2; in-place v1",
		"set max-surge=1 partition=1",
		"set on-delete partition=1 paused",
	}
}

// limitedNodes are nodes on which hooks, changes in place and what is remembered matter.
func limitedNodes() []string {
	return []string{
		"must", "must last=v1", "must selected last=v1", "must last=v2", "must v1:ready", "must selected v1:ready",
		"must v1:unready", "must v1:ready,deleting", "must v1:failed", "must v2:ready", "must v2:unready",
		"must v1:ready,armed", "must v1:ready,waiting", "must v1:ready,released", "must v2:ready,waiting", "must v2:ready,released",
		"must v1:failed,armed", "must v1:ready,armed v2:ready", "must v1:ready,waiting v2:ready", "must v1:ready v1:ready,armed",
		"must v1:ready v1:ready,waiting", "must v2:ready,released v2:ready,waiting", "stay v1:ready,armed", "stay v1:ready,waiting",
		"stay v2:ready,waiting", "leave v2:ready,armed", "leave v1:ready,waiting", "leave v1:ready,released",
		"gone v1:pending,unscheduled,armed", "must v1:ready,gate", "must selected v1:unready,gate", "stay v1:ready,gate", "must v1:unready,marked",
		"must v1:unready,marked,grace=3s", "must v1:unready,patched", "must v1:unready,arrived", "must v2:unready,marked",
		"must v2:ready,patched", "must v2:unready,arrived", "leave v2:unready,arrived", "must blocked v1:unready,marked",
		"must v2:unready,announced", "must v1:unready,announced,grace=3s", "must v2:unready,patched,stuck,armed", "must v2:unready,announced,stuck",
		"must v1:unready,patched,stuck", "stay v2:unready,patched,stuck", "must v2:ready,open,stuck=30s", "must v1:ready,open,stuck=30s", "must v1:ready,open", "must v2:ready,open", "stay v1:ready,open",
	}
}

// everyLimited calls f with all worlds of one and two such nodes, and of three for a few.
func everyLimited(t *testing.T, f func(t *testing.T, w *world)) {
	nodes := limitedNodes()
	few := []string{"must", "must last=v1", "must v1:ready,gate", "must selected v1:ready,armed", "must v1:ready,waiting", "must v1:unready,marked", "must v2:ready"}
	if testing.Short() {
		nodes = nodes[:12]
	}
	for _, set := range limitedSets() {
		t.Run(set, func(t *testing.T) {
			for _, a := range nodes {
				f(t, build(t, set, a))
				for _, b := range nodes {
					f(t, build(t, set, a, b))
				}
			}
			threes(t, set, few, f)
		})
	}
}

// assertHeld: nothing has been updated but what the limits allowed, from the beginning to the end.
func assertHeld(t *testing.T, start, w *world) {
	t.Helper()
	if w.State.Set.Strategy != RollingUpdate {
		return
	}
	before, after := newDumb(start.State), newDumb(w.State)
	done := before.count(func(f facts) bool {
		return f.Fit == MustRun && (before.counts(f) || before.fresh(f) && !w.State.Set.Progressive)
	})
	updated := after.count(func(f facts) bool { return f.Fit == MustRun && len(f.current) > 0 })
	if keep := before.kept(); keep > 0 && updated > max(done, before.desired()-keep) {
		t.Fatalf("%d nodes are updated, %d of %d are to be kept\n%s\nbegun with\n%s", updated, keep, before.desired(), show(w.State, Decide(w.State)), show(start.State, Decide(start.State)))
	}
	for _, f := range before.nodes {
		limited := w.State.Set.Paused || w.State.Set.Selective && !f.Selected
		if f.Fit != MustRun || !limited || before.counts(f) || before.fresh(f) {
			continue
		}
		for _, g := range after.nodes {
			if g.Name == f.Name && len(g.current) > 0 {
				t.Fatalf("%s is held and has been updated\n%s\nbegun with\n%s", f.Name, show(w.State, Decide(w.State)), show(start.State, Decide(start.State)))
			}
		}
	}
}
