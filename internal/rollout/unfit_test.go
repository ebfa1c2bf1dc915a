// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

// TestUnfitNodes: a held node where only the wanted revision may run gets no pod of another one, and uses up no budget, so that the canary b starts. When it is released, it gets its pod. One that keeps its revision for
// another reason gets that, and so does one that has a pod.
func TestUnfitNodes(t *testing.T) {
	play := &player{}
	if _, err := play.do("world", []string{"node a must", "node b must v1:ready", "node c must v1:ready", "gate joining=v1 a=wait-wave c=wait-wave"}); err != nil {
		t.Fatal(err)
	}
	s := play.w.State
	for _, last := range []int{NoRevision, 0} { // 0 is v1
		s.Nodes[0].Last, s.Gate.Unfit = last, nil
		if p := Decide(s); len(p.Actions) != 1 || p.Actions[0].Kind != Create || p.Actions[0].Revision != 0 || !p.Verdicts[0].Charged {
			t.Errorf("%+v", p.Actions)
		}
		s.Gate.Unfit = []bool{true, false, true}
		p := Decide(s)
		if len(p.Actions) != 1 || p.Actions[0].Kind != Delete || p.Actions[0].Node != 1 || p.Verdicts[0] != (Verdict{Kind: WaitWave}) || p.Verdicts[2].Kind != WaitWave {
			t.Errorf("%+v, %+v", p.Actions, p.Verdicts)
		}
		s.Gate.Holds[0] = notHeld
		if p := Decide(s); len(p.Actions) != 1 || p.Actions[0].Kind != Create || p.Actions[0].Revision != s.Set.Update || !p.Verdicts[0].Charged {
			t.Errorf("%+v", p.Actions)
		}
		s.Gate.Holds[0] = WaitWave
	}
}

// TestUnfitNodesThatKeepTheirPod: while such a node is held, it uses up no budget, although its pod is not available. When it is released, the pod leaves.
func TestUnfitNodesThatKeepTheirPod(t *testing.T) {
	play := &player{}
	if _, err := play.do("world", []string{"node a stay v1:unready", "node b must v1:ready", "node c must v1:ready", "gate joining=v1 a=wait-wave c=wait-wave"}); err != nil {
		t.Fatal(err)
	}
	s := play.w.State
	if p := Decide(s); len(p.Actions) != 0 || !p.Verdicts[0].Charged {
		t.Errorf("%+v", p.Actions)
	}
	s.Gate.Unfit = []bool{true}
	if p := Decide(s); len(p.Actions) != 1 || p.Actions[0].Kind != Delete || p.Actions[0].Node != 1 || p.Verdicts[0] != (Verdict{Kind: WaitWave}) {
		t.Errorf("%+v, %+v", p.Actions, p.Verdicts)
	}
	s.Gate.Holds[0] = notHeld
	if p := Decide(s); len(p.Actions) != 1 || p.Actions[0].Kind != Delete || p.Actions[0].Node != 0 {
		t.Errorf("%+v", p.Actions)
	}
}
