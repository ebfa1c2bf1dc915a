// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"reflect"
	"slices"
	"testing"
)

// TestAfter: the verdicts of a pass follow from the plan and the outcomes of its actions, and neither the plan nor the Snapshot changes.
func TestAfter(t *testing.T) {
	refused := &Refusal{Message: "denied before"}
	takesBack := Action{Kind: Unmark, TakesBack: true}
	for name, c := range map[string]struct {
		refusal  *Refusal
		verdict  VerdictKind
		actions  []Action
		outcomes []Outcome
		want     VerdictKind
		obstacle string
	}{
		"it took effect":                             {nil, Creating, []Action{{Kind: Create}}, []Outcome{{Done: true}}, Creating, ""},
		"it was not sent":                            {nil, Creating, []Action{{Kind: Create}}, []Outcome{{}}, Creating, ""},
		"it was refused":                             {nil, Creating, []Action{{Kind: Create}}, []Outcome{{Obstacle: "denied"}}, Blocked, "denied"},
		"it was refused again":                       {refused, Creating, []Action{{Kind: Create}}, []Outcome{{Obstacle: "denied"}}, Blocked, "denied"},
		"its turn did not come again":                {refused, Creating, []Action{{Kind: Create}}, []Outcome{{}}, Blocked, "denied before"},
		"it took effect at last":                     {refused, Creating, []Action{{Kind: Create}}, []Outcome{{Done: true}}, Creating, ""},
		"one of two was refused":                     {nil, Removing, []Action{{Kind: Delete}, {Kind: Delete}}, []Outcome{{Done: true}, {Obstacle: "denied"}}, Blocked, "denied"},
		"it is only prepared":                        {refused, UpdatingInPlace, []Action{{Kind: Mark}}, []Outcome{{}}, UpdatingInPlace, ""},
		"what was refused is taken back":             {refused, Blocked, []Action{takesBack}, []Outcome{{Done: true}}, Blocked, "denied before"},
		"what was refused cannot be taken back":      {refused, Blocked, []Action{takesBack}, []Outcome{{Obstacle: "denied"}}, Blocked, "denied before"},
		"nothing was to be done":                     {refused, Blocked, nil, nil, Blocked, "denied before"},
		"nothing was to be done where nothing stood": {nil, UpToDate, nil, nil, UpToDate, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := Snapshot{Nodes: []Node{{Name: "other"}, {Name: "a", Refusal: c.refusal}}}
			for i := range c.actions {
				c.actions[i].Node = 1
			}
			p := Plan{Actions: c.actions, Verdicts: []Verdict{{Kind: UpToDate}, {Kind: c.verdict, Charged: true, Detail: DetailNoGate}}}
			before := slices.Clone(p.Verdicts)
			after := p.After(&s, c.outcomes)
			if v := after.Verdicts[1]; v.Kind != c.want || !v.Charged || after.Verdicts[0] != before[0] {
				t.Errorf("verdicts %v", after.Verdicts)
			}
			if v := after.Verdicts[1]; v.Kind == Blocked && after.Obstacle(&s, 1) != c.obstacle {
				t.Errorf("obstacle %q, want %q", after.Obstacle(&s, 1), c.obstacle)
			}
			if !reflect.DeepEqual(p.Verdicts, before) || p.Obstacles != nil || s.Nodes[1].Blocked != "" {
				t.Errorf("the plan or the Snapshot has changed: %v, %q", p.Verdicts, s.Nodes[1].Blocked)
			}
		})
	}
}

// TestObstacleOfAnUnansweredNode: what a write of this pass was answered replaces why the node was blocked before, next to what is remembered.
func TestObstacleOfAnUnansweredNode(t *testing.T) {
	s := Snapshot{Nodes: []Node{{Blocked: "not clear", Unanswered: true, Refusal: &Refusal{Message: "no answer"}}}}
	p := Plan{Actions: []Action{{Kind: Delete}}, Verdicts: []Verdict{{Kind: RemovingExcess}}}
	if got := p.Obstacle(&s, 0); got != "not clear: no answer" {
		t.Error(got)
	}
	if after := p.After(&s, []Outcome{{Obstacle: "denied"}}); after.Obstacle(&s, 0) != "denied: no answer" {
		t.Error(after.Obstacle(&s, 0))
	}
}
