// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// ending prints the plan of a manager that is being stopped.
func (p *player) ending() string {
	s := &p.w.State
	plan := DecideEnding(*s)
	out := printPlan(s, plan)
	for _, i := range s.Unfinished(&plan) {
		out += "unfinished: " + s.Nodes[i].Name + "\n"
	}
	return out
}

// endingViolations are what a plan does that a manager must not do which is being stopped, and what it leaves undone.
func endingViolations(s Snapshot, p Plan) (bad []string) {
	d, own := newDumb(s), begin(&s)
	for _, rule := range []func(*dumb, Plan) error{oneVerdictEach, actionsAreReal, burstIsKept, actionsAgree, handsOff, neverTwoPods, surgePairs} {
		if err := rule(d, p); err != nil {
			return append(bad, err.Error())
		}
	}
	usual := Decide(s)
	for _, a := range p.Actions {
		pod := d.pod(a)
		switch {
		case a.Kind == Create:
			same := func(b Action) bool { // a create that would begin an update gets the last revision
				if b.Begins {
					b.Begins, b.Revision = false, s.Nodes[a.Node].Last
				}
				return b == a && b.Reason == Creating
			}
			if !slices.ContainsFunc(usual.Actions, same) && len(usual.Actions) < d.burst() {
				bad = append(bad, "creates what is not missing on "+s.Nodes[a.Node].Name)
			}
		case a.Kind == Prepare, a.Kind == Mark, a.Kind == Patch:
			bad = append(bad, fmt.Sprintf("begins with a %s of %s", a.Kind, a.Pod))
		case a.Kind == Delete && (own.serving(pod) || pod.Hook != HookReleased):
			bad = append(bad, "deletes "+a.Pod)
		}
	}
	for i, v := range p.Verdicts {
		first := slices.IndexFunc(p.Actions, func(a Action) bool { return a.Node == i })
		if v.Kind.Acts() != (first >= 0) || first >= 0 && p.Actions[first].Reason != v.Kind {
			bad = append(bad, fmt.Sprintf("%s of %s, and its first action is %d", v.Kind, s.Nodes[i].Name, first))
		}
		if pod := called(d, i); pod != "" && !slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Kind == Unmark && a.Pod == pod }) && len(p.Actions) < d.burst() {
			bad = append(bad, "leaves the gate of "+pod+" closed")
		}
	}
	return bad
}

// called is the pod of a node whose change in place is to be called off or finished now; empty for none.
func called(d *dumb, i int) string {
	f := d.nodes[i]
	if !d.known() || d.s.Set.ExternalController || !d.mayRun(f) || d.barred(f) || len(f.Pods) != 1 {
		return ""
	}
	p := f.Pods[0]
	if p.Deleting || p.Phase.Terminal() || preparing(p) || p.InPlace != InPlaceMarked && p.InPlace != InPlaceArrived {
		return ""
	}
	return p.Name
}

// TestEndingTakesNothingAway: a manager that is being stopped takes no pod out of service, and puts those back that it has taken out.
func TestEndingTakesNothingAway(t *testing.T) {
	seen := map[VerdictKind]int{}
	for i := range randomCount() {
		s := randomSnapshot(i)
		if i%3 == 0 {
			s.Gate = (&source{data: []byte{byte(i), byte(i >> 8), 3, 1, 4, 1, 5, 9, 2, 6}}).gate(&s)
		}
		before := s.Copy()
		p := DecideEnding(s)
		if !reflect.DeepEqual(s, before) {
			t.Fatalf("snapshot %d: it was changed", i)
		}
		if bad := endingViolations(s, p); len(bad) > 0 {
			t.Fatalf("snapshot %d: %s\n%s", i, strings.Join(bad, "\n"), show(s, p))
		}
		for _, v := range p.Verdicts {
			seen[v.Kind]++
		}
	}
	for _, kind := range []VerdictKind{WaitManager, Creating, FinishingInPlace, Restoring, WaitInPlace} {
		if seen[kind] == 0 {
			t.Errorf("no snapshot leads to %s", kind)
		}
	}
	for _, kind := range []VerdictKind{Preparing, Surging, WaitBurst, WaitPace} {
		if seen[kind] != 0 {
			t.Errorf("%d nodes with %s", seen[kind], kind)
		}
	}
}

// TestEndingViolationsAreNoticed: what Decide does is too much for a manager that is being stopped, and nothing is too little.
func TestEndingViolationsAreNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		world []string
		plan  func(Snapshot) Plan
		want  string
	}{
		"starts an update":      {[]string{"node a must v1:ready"}, Decide, "deletes a-1"},
		"surges":                {[]string{"set max-surge=1", "node a must v1:ready"}, Decide, "creates what is not missing on a"},
		"asks a hook":           {[]string{"hooked", "node a must v1:ready,armed"}, Decide, "begins with a prepare of a-1"},
		"begins a change":       {[]string{"set in-place", "in-place v1", "node a must v1:ready,gate"}, Decide, "begins with a patch of a-1"},
		"changes a marked pod":  {[]string{"set in-place close-gate", "in-place v1", "node a must v1:unready,marked"}, Decide, "begins with a patch of a-1"},
		"empties a node":        {[]string{"node a leave v2:ready"}, Decide, "deletes a-1"},
		"leaves a gate closed":  {[]string{"set in-place", "node a must v2:unready,arrived"}, func(s Snapshot) Plan { p := DecideEnding(s); p.Actions = nil; return p }, "leaves the gate of a-1 closed"},
		"acts without a reason": {[]string{"node a must"}, func(s Snapshot) Plan { p := DecideEnding(s); p.Verdicts[0].Kind = WaitManager; return p }, "wait-manager of a, and its first action is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			play := &player{}
			if _, err := play.do("world", c.world); err != nil {
				t.Fatal(err)
			}
			s := play.w.State
			if bad := endingViolations(s, DecideEnding(s)); len(bad) > 0 {
				t.Errorf("the right plan: %v", bad)
			}
			if bad := endingViolations(s, c.plan(s)); !slices.Contains(bad, c.want) {
				t.Errorf("got %q, want %q", bad, c.want)
			}
		})
	}
}
