// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"reflect"
	"testing"
)

// theLongWay is Decide without the shortcut for nodes where all is well.
func theLongWay(s Snapshot) (p Plan, taken int) {
	d := begin(&s)
	d.holdNodes()
	for i := range s.Nodes {
		d.visitNode(i)
		short := begin(&s)
		if short.visitUntouched(i) {
			taken++
		}
	}
	d.startUpdates()
	return d.finish(), taken
}

// TestUntouchedNodesAreAsVisitNodeFindsThem, with every way in which a node can be less than untouched among them.
func TestUntouchedNodesAreAsVisitNodeFindsThem(t *testing.T) {
	taken := 0
	for i := range 4000 { // few have a node where all is well
		s := randomSnapshot(i)
		want, calm := theLongWay(s)
		if got := Decide(s); !reflect.DeepEqual(got, want) {
			t.Fatalf("the shortcut leads elsewhere\n%s\nthe long way\n%s", show(s, got), printPlan(&s, want))
		}
		taken += calm
	}
	if taken == 0 {
		t.Error("no snapshot had a node where all is well")
	}
	ready := readyPod("p", 1)
	for name, change := range map[string]func(s *Snapshot, p *Pod){
		"old":             func(_ *Snapshot, p *Pod) { p.Revision = 0 },
		"deleting":        func(_ *Snapshot, p *Pod) { p.Deleting = true },
		"failed":          func(_ *Snapshot, p *Pod) { p.Phase = Failed },
		"not ready":       func(_ *Snapshot, p *Pod) { p.Ready = false },
		"too young":       func(s *Snapshot, p *Pod) { s.Set.MinReady, p.ReadySince = 10, s.Now },
		"preparing":       func(_ *Snapshot, p *Pod) { p.Hook = HookWaiting },
		"being changed":   func(_ *Snapshot, p *Pod) { p.InPlace = InPlaceArrived },
		"unanswered":      func(s *Snapshot, _ *Pod) { s.Nodes[0].Unanswered = true },
		"doubtful":        func(_ *Snapshot, p *Pod) { p.Doubtful = true },
		"says too much":   func(_ *Snapshot, p *Pod) { p.Announced.Said = true },
		"says too little": func(s *Snapshot, _ *Pod) { s.Set.Announce = true },
		"left out":        func(s *Snapshot, _ *Pod) { s.Nodes[0].Ready, s.Set.Unreachable.Skip = false, true },
		"may stay":        func(s *Snapshot, _ *Pod) { s.Nodes[0].Fit = MayStay },
		"gone":            func(s *Snapshot, _ *Pod) { s.Nodes[0].Gone = true },
		"without update":  func(s *Snapshot, _ *Pod) { s.Set.Update = NoRevision },
	} {
		s := fleetOf(1, func(int) []Pod { return []Pod{ready} })
		if d := begin(&s); !d.visitUntouched(0) {
			t.Fatal("a pod of the wanted revision that is ready is not untouched")
		}
		change(&s, &s.Nodes[0].Pods[0])
		if d := begin(&s); d.visitUntouched(0) {
			t.Errorf("%s, and yet untouched", name)
		}
	}
}
