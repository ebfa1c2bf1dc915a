// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"testing"
)

// What no plan shows: the ends of numbers, and short cuts that lead where the long way leads.

// TestShortCutsAreTaken: what costs nothing where there is nothing to do does cost nothing.
func TestShortCutsAreTaken(t *testing.T) {
	ready := readyPod("p", 1)
	for _, c := range []struct {
		name        string
		ready, skip bool
	}{
		{"not ready, in an update that leaves nobody out", false, false},
		{"ready, in one that leaves out who is not", true, true},
	} {
		s := fleetOf(1, func(int) []Pod { return []Pod{ready} })
		s.Nodes[0].Ready, s.Set.Unreachable.Skip = c.ready, c.skip
		if d := begin(&s); !d.visitUntouched(0) {
			t.Errorf("%s: it is not untouched", c.name)
		}
	}
	unlimited := oneNode(readyPod("p", 0))
	d := begin(&unlimited)
	if d.holdNodes(); d.holds != nil {
		t.Errorf("a set without limits has the holds %v", d.holds)
	}
	sorted := []Pod{readyPod("a", 1), readyPod("b", 1)}
	if got := d.byAge(sorted); &got[0] != &sorted[0] || d.scratch != nil {
		t.Error("pods that come in order of age are copied")
	}
	a := actionQueue{burst: 2}
	for i := range 5 {
		a.repair(Action{Kind: Create, Node: i})
	}
	if len(a.missing) != 2 || !a.cut {
		t.Errorf("with room for 2 actions %d are written down, and it is cut: %t", len(a.missing), a.cut)
	}
}

// TestTextsEndWhereTheKindsEnd: what comes right after the last kind has no text.
func TestTextsEndWhereTheKindsEnd(t *testing.T) {
	if got, want := VerdictKind(len(verdicts)).String(), fmt.Sprintf("verdict-%d", len(verdicts)); got != want {
		t.Errorf("the verdict after the last one is called %q, want %q", got, want)
	}
	if got, want := Detail(detailCount).String(), fmt.Sprintf("detail-%d", detailCount); got != want {
		t.Errorf("the detail after the last one is called %q, want %q", got, want)
	}
	if VerdictKind(len(verdicts)).Waits() || VerdictKind(len(verdicts)).Acts() {
		t.Error("the verdict after the last one waits or acts")
	}
}

func TestKnownFits(t *testing.T) {
	for fit, want := range []bool{NotKnown: false, MustRun: true, MayStay: true, MustLeave: true, MustLeave + 1: false} {
		if got := Fit(fit).known(); got != want {
			t.Errorf("%s (%d) is known: %t", Fit(fit), fit, got)
		}
	}
}

// TestNothingHoldsWhatIsNoBusinessOfTheUpdate: a node that must not run the pod, is gone or is not evaluated is held by nothing, and counts as nothing.
func TestNothingHoldsWhatIsNoBusinessOfTheUpdate(t *testing.T) {
	s := oneNode()
	s.Set.Paused = true
	d := begin(&s)
	for _, n := range []Node{{Fit: NotKnown}, {Fit: MustLeave}, {Fit: MustLeave, Gone: true}, {Fit: 9}} {
		n.Pods = []Pod{readyPod("p", 0)}
		if hold, counts := d.classify(&n); hold != notHeld || counts {
			t.Errorf("%s, gone %t: held by %s, counts %t", n.Fit, n.Gone, hold, counts)
		}
	}
	n := Node{Fit: MustRun, Pods: []Pod{readyPod("p", 0)}}
	if hold, _ := d.classify(&n); hold != WaitPaused {
		t.Errorf("a node with an old pod is held by %s", hold)
	}
}

// TestRestoredPodsAreLive: a pod that is wanted again is neither leaving nor waiting for its hook any more.
func TestRestoredPodsAreLive(t *testing.T) {
	for _, hook := range []Hook{HookWaiting, HookReleased} {
		p := readyPod("p", 1)
		p.Hook = hook
		s := oneNode(p)
		d := begin(&s)
		n := nodeContext{node: &s.Nodes[0], pods: s.Nodes[0].Pods}
		d.countPods(&n)
		if n.restored == nil || n.preparing != 0 || n.waiting != 0 || n.live() != 1 || n.running != 1 {
			t.Errorf("its hook is %s: %+v", hook, n.podCounts)
		}
	}
}

// TestCornersOfTheBudget are decisions that hang on one number, and that random snapshots hardly come to.
func TestCornersOfTheBudget(t *testing.T) {
	old, current := readyPod("old", 0), readyPod("current", 1)
	idle, doubtful, second := old, old, readyPod("second", 1)
	idle.Ready, doubtful.Doubtful = false, true
	node := func(name string, fit Fit, pods ...Pod) Node {
		return Node{Name: name, Fit: fit, Ready: true, Pods: pods}
	}
	away := node("a", MustRun, doubtful)
	away.Ready, away.Since = false, testNow
	surge := Set{Update: 1, Strategy: RollingUpdate, MaxSurge: Quantity{Value: 1}}
	one := Quantity{Value: 1}
	for _, c := range []struct {
		name  string
		set   Set
		nodes []Node
		want  VerdictKind // of the last node
	}{
		{
			"who gets no successor goes, though as many as may are in flight", Set{Update: 1, Strategy: RollingUpdate, MaxSurge: one, MaxReplacing: &one},
			[]Node{node("a", MustRun, idle), node("b", MustRun, idle), node("c", MayStay, idle)}, Removing,
		},
		{"a pair serves its node, so one pod is to spare", surge, []Node{node("a", MustRun, old, current), node("b", MayStay, old)}, Removing},
		{
			"one is to spare, so one of two goes", surge,
			[]Node{node("a", MustRun, old, current), node("b", MustRun), node("c", MayStay, old), node("d", MayStay, old)}, WaitSurgeRemove,
		},
		{"three pods are in each other's way, so none is", surge, []Node{node("a", MustRun, old, current, second), node("b", MayStay, old)}, WaitSurgeRemove},
		{
			"a node that is charged and not in flight holds up nobody", Set{
				Update: 1, Strategy: RollingUpdate, MaxUnavailable: one, MaxReplacing: &one, Unreachable: Unreachable{Skip: true},
			}, []Node{away, node("b", MustRun, idle)}, Recreating,
		},
	} {
		s := oneNode()
		s.Set, s.Nodes = c.set, c.nodes
		assertGood(t, s)
		if got := Decide(s).Verdicts[len(c.nodes)-1].Kind; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
