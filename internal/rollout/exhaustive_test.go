// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"
	"testing"
)

// podStates are what can be on a node, in the notation of the scripts; v2 is wanted.
func podStates() []string {
	single := []string{"ready", "unready", "pending,unscheduled", "ready,deleting", "failed", "succeeded", "failed,deleting", "ready,since=-1s"}
	states := []string{""}
	for _, state := range single {
		states = append(states, "v1:"+state, "v2:"+state)
	}
	return append(states,
		"v1:ready v2:ready", "v1:ready v2:pending", "v1:unready v2:pending", "v1:unready v2:ready", "v1:ready,deleting v2:pending",
		"v1:ready v1:ready", "v2:unready v2:ready", "v1:ready v2:failed", "v2:ready v1:ready,deleting", "v1:failed v2:failed",
		"v1:ready v1:unready v2:ready v2:pending")
}

// fewPodStates are those that matter to the budget, for searching three nodes.
func fewPodStates() []string {
	return []string{"", "v1:ready", "v1:unready", "v1:ready,deleting", "v1:failed", "v2:ready", "v2:unready", "v1:ready v2:ready", "v1:ready v2:pending"}
}

// nodeStates are all pod states on nodes that must run the pod, and some of them elsewhere.
func nodeStates(pods []string) []string {
	var out []string
	for i, p := range pods {
		out = append(out, "must "+p)
		for j, where := range []string{"stay", "leave", "gone", "unknown", "must blocked", "must not-ready"} {
			// Each place gets a different third of the pod states, and the first ones in any case.
			if i < 3 || (i+j)%3 == 0 {
				out = append(out, where+" "+p)
			}
		}
	}
	return out
}

func setStates() []string {
	return []string{
		"set max-unavailable=1",
		"set max-unavailable=2",
		"set max-unavailable=50% min-ready=10s",
		"set max-unavailable=1 max-replacing=1",
		"set max-unavailable=3 burst=1",
		"set on-delete",
		"set max-surge=1",
		"set max-surge=50% min-ready=10s",
		"set max-surge=2 burst=2",
		"set max-surge=1 max-replacing=1",
	}
}

// build makes a world of the given lines (those of the set are separated by semicolons); nodes are called a, b, c.
func build(t testing.TB, set string, nodes ...string) *world {
	t.Helper()
	play := &player{}
	lines := strings.Split(set, "; ")
	for i, n := range nodes {
		lines = append(lines, fmt.Sprintf("node %c %s", 'a'+i, n))
	}
	if _, err := play.do("world", lines); err != nil {
		t.Fatal(err)
	}
	return &play.w
}

// every calls f with all worlds of one and two nodes of many states and of three nodes of few states.
func every(t *testing.T, f func(t *testing.T, w *world)) {
	many, few := nodeStates(podStates()), fewPodStates()
	if testing.Short() {
		many = nodeStates(few)
	}
	for _, set := range setStates() {
		t.Run(strings.TrimPrefix(set, "set "), func(t *testing.T) {
			for _, a := range many {
				f(t, build(t, set, a))
				for _, b := range many {
					f(t, build(t, set, a, b))
				}
			}
			threes(t, set, few, f)
		})
	}
	everyLimited(t, f)
	everyEdge(t, f)
}

func threes(t *testing.T, set string, few []string, f func(t *testing.T, w *world)) {
	for _, a := range few {
		for _, b := range few {
			for _, c := range few {
				f(t, build(t, set, "must "+a, "must "+b, "must "+c))
				f(t, build(t, set, "must "+a, "stay "+b, "must "+c))
			}
		}
	}
}

// TestEveryWorld decides once in each of them.
func TestEveryWorld(t *testing.T) {
	every(t, func(t *testing.T, w *world) { assertGood(t, w.State) })
}

// TestEveryWorldComesToRest plays each of them to the end, checks every step and what they come to.
func TestEveryWorldComesToRest(t *testing.T) {
	every(t, func(t *testing.T, w *world) { assertComesToRest(t, w) })
}

func assertComesToRest(t *testing.T, w *world) {
	start := w.copy()
	var previous *dumb
	excess := false
	for range 60 {
		now := newDumb(w.copy().State)
		if bad := stepViolation(previous, now, excess); bad != "" {
			t.Fatalf("%s\nfrom\n%s\nto\n%s\nbegun with\n%s", bad, show(previous.s, Decide(previous.s)), show(w.State, Decide(w.State)), show(start.State, Decide(start.State)))
		}
		plan, done, err := w.step()
		if err == nil {
			if bad := now.violations(plan); len(bad) > 0 {
				err = fmt.Errorf("%s", strings.Join(bad, "\n"))
			}
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, show(now.s, plan))
		}
		if done {
			assertAtRest(t, start, w)
			assertHeld(t, start, w)
			return
		}
		excess = false
		for _, a := range plan.Actions {
			excess = excess || a.Reason == RemovingExcess
		}
		previous = now
	}
	t.Fatalf("no rest after 60 steps\n%s\nbegun with\n%s", show(w.State, Decide(w.State)), show(start.State, Decide(start.State)))
}

// stepViolation compares two consecutive moments of a world where nothing breaks by itself: what is bad got so by a plan.
func stepViolation(before, after *dumb, excess bool) string {
	if before == nil {
		return ""
	}
	charged, earlier := after.count(after.charged), before.count(before.charged)
	// A node that is left out is charged anew when its last pod is gone, which may have been nothing to the update before.
	charged -= after.count(func(f facts) bool { return after.away(f) && len(f.pods) == 0 && after.charged(f) })
	// And an earlier version is suspected again when the last pod that spoke for it is replaced.
	charged -= after.count(after.earlierOnly)
	if !after.surge() && charged > max(earlier, after.limit()) {
		return fmt.Sprintf("%d nodes charged, limit %d", charged, after.limit())
	}
	if lost := before.served() - after.served(); after.surge() && !excess && lost > 0 {
		return fmt.Sprintf("surge has taken the pods of %d nodes away", lost)
	}
	for i, f := range after.nodes {
		if len(after.nodes) == len(before.nodes) && !after.surge() && len(f.pods) > max(1, len(before.nodes[i].pods)) {
			return fmt.Sprintf("%s has %d pods", f.Name, len(f.pods))
		}
	}
	return ""
}

// served counts the nodes that have to run a pod and have an available one, be it on its way out.
func (d *dumb) served() int {
	return d.count(func(f facts) bool { return f.Fit == MustRun && d.anyServing(f.live) })
}

// assertAtRest: every node that has to run a pod runs the wanted one, available, and nothing else is left.
func assertAtRest(t *testing.T, start, w *world) {
	t.Helper()
	d := newDumb(w.State)
	for _, f := range d.nodes {
		for _, p := range f.pods {
			if d.mayRun(f) && !p.Deleting && p.Announced != d.right(f, p) {
				t.Fatalf("%s does not say what it should\n%s\nbegun with\n%s", p.Name, show(w.State, Decide(w.State)), show(start.State, Decide(start.State)))
			}
		}
		switch {
		case f.Fit == MustRun && f.Blocked == "" && f.Ready && !d.resting(f):
			t.Fatalf("%s has not come to what it should\n%s\nbegun with\n%s", f.Name, show(w.State, Decide(w.State)), show(start.State, Decide(start.State)))
		case f.Fit == MustLeave && len(f.pods) > 0, f.Gone:
			t.Fatalf("%s still has pods\n%s\nbegun with\n%s", f.Name, show(w.State, Decide(w.State)), show(start.State, Decide(start.State)))
		}
	}
}

// resting is whether a node needs nothing more, or nothing more can be done within the budget.
func (d *dumb) resting(f facts) bool {
	if len(f.pods) == 0 {
		return f.hold == WaitProgressive
	}
	if len(f.running) == 1 && d.hopeless(f, f.running[0]) && (d.s.Set.Strategy == OnDelete || f.hold != 0) {
		return true // no update may take it away
	}
	if len(f.pods) != 1 || len(f.running) != 1 || !d.anyServing(f.running) {
		return false
	}
	if d.s.Set.Strategy == OnDelete || len(f.current) == 1 || f.hold != 0 || d.handsTied(f) {
		return true
	}
	capped := d.s.Set.MaxReplacing != nil
	return d.count(d.charged) >= d.limit() || capped && d.count(d.inFlight) >= ceil(*d.s.Set.MaxReplacing, d.desired())
}
