// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// assertGood checks everything that is said of one decision: it is what the dumb one is, it keeps the invariants, and it
// depends on nothing but the snapshot.
func assertGood(t testing.TB, s Snapshot) {
	t.Helper()
	before := s.Copy()
	got := Decide(s)
	if !reflect.DeepEqual(s, before) {
		t.Fatalf("Decide has changed its snapshot\n%s", show(before, got))
	}
	d := newDumb(s)
	if want := d.plan(); !same(got, want) {
		t.Fatalf("the dumb decision differs\n%s\nit is\n%s", show(s, got), printPlan(&s, want))
	}
	if bad := d.violations(got); len(bad) > 0 {
		t.Fatalf("%s\n%s", strings.Join(bad, "\n"), show(s, got))
	}
}

// same compares plans; no list and an empty list are the same.
func same(a, b Plan) bool {
	for _, p := range []*Plan{&a, &b} {
		if len(p.Announcements) == 0 {
			p.Announcements = nil
		}
		if len(p.Actions) == 0 {
			p.Actions = nil
		}
		if len(p.Memory.Backoffs) == 0 {
			p.Memory.Backoffs = nil
		}
		if len(p.Verdicts) == 0 {
			p.Verdicts = nil
		}
	}
	return reflect.DeepEqual(a, b)
}

func show(s Snapshot, p Plan) string {
	var out strings.Builder
	set := s.Set
	set.MaxReplacing = nil
	fmt.Fprintf(&out, "set %+v", set)
	if s.Set.MaxReplacing != nil {
		fmt.Fprintf(&out, " max replacing %+v", *s.Set.MaxReplacing)
	}
	fmt.Fprintf(&out, "\nmemory %+v\n", s.Memory)
	for _, n := range s.Nodes {
		fmt.Fprintf(&out, "%s %s gone %t ready %t blocked %q\n", n.Name, n.Fit, n.Gone, n.Ready, n.Blocked)
		for _, pod := range n.Pods {
			fmt.Fprintf(&out, "  %+v\n", pod)
		}
	}
	return out.String() + printPlan(&s, p)
}

// randomSnapshot is snapshot number i of a series that is the same on every machine.
func randomSnapshot(i int) Snapshot {
	data := make([]byte, 600)
	rand.New(rand.NewSource(int64(i))).Read(data)
	return (&source{data: data}).snapshot()
}

func randomCount() int {
	if testing.Short() {
		return 4000
	}
	return 30000
}

func TestRandomSnapshots(t *testing.T) {
	seen := map[VerdictKind]int{}
	for i := range randomCount() {
		s := randomSnapshot(i)
		assertGood(t, s)
		for _, v := range Decide(s).Verdicts {
			seen[v.Kind]++
		}
	}
	for _, kind := range VerdictKinds() {
		if seen[kind] == 0 && !kind.OfPolicy() && kind != WaitManager { // those are TestGateOnlyRestricts's and TestEndingTakesNothingAway's
			t.Errorf("no random snapshot leads to %s", kind)
		}
	}
}

// TestOrderOfPodsDoesNotMatter also shows that nothing but the snapshot matters.
func TestOrderOfPodsDoesNotMatter(t *testing.T) {
	for i := range randomCount() / 4 {
		s := randomSnapshot(i)
		mixed := s.Copy()
		rng := rand.New(rand.NewSource(int64(i)))
		for _, n := range mixed.Nodes {
			rng.Shuffle(len(n.Pods), func(a, b int) { n.Pods[a], n.Pods[b] = n.Pods[b], n.Pods[a] })
		}
		if a, b := Decide(s), Decide(mixed); !same(a, b) {
			t.Fatalf("snapshot %d: with its pods mixed up the plan is another\n%s", i, show(mixed, b))
		}
	}
}

// TestDecidingAgainChangesNothing: with the memory of the first plan, the second says the same of the same world, except
// that failed pods now wait.
func TestDecidingAgainChangesNothing(t *testing.T) {
	for i := range randomCount() / 4 {
		s := randomSnapshot(i)
		first := Decide(s)
		s.Memory = first.Memory
		second := Decide(s)
		if first.Status != second.Status || first.Budget.Limit != second.Budget.Limit {
			t.Fatalf("snapshot %d: status %+v, then %+v", i, first.Status, second.Status)
		}
		if slices.ContainsFunc(first.Actions, func(a Action) bool { return a.Reason == ReplacingFailed }) {
			continue
		}
		if !same(first, second) {
			t.Fatalf("snapshot %d: the second plan differs\n%s", i, show(s, second))
		}
	}
}

// FuzzDecide breaks the contract of a snapshot in every way: Decide has to give a well-formed plan all the same.
func FuzzDecide(f *testing.F) {
	for i := range 50 {
		data := make([]byte, 10*i)
		rand.New(rand.NewSource(int64(i))).Read(data)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src := &source{data: data}
		assertGood(t, src.snapshot())

		src = &source{data: data[:min(len(data)/2, 200)]}
		s := src.snapshot()
		src.data = data[min(len(data)/2, 200):]
		src.wild(&s)
		p := Decide(s)
		if !same(p, Decide(s)) {
			t.Fatalf("twice the same snapshot, two plans\n%s", show(s, p))
		}
		d := newDumb(s)
		for _, rule := range []func(*dumb, Plan) error{oneVerdictEach, actionsAreReal, burstIsKept, handsOff} {
			if err := rule(d, p); err != nil {
				t.Fatalf("%v\n%s", err, show(s, p))
			}
		}
	})
}
