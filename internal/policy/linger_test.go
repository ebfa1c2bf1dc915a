// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"maps"
	"testing"
	"time"

	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// TestGroupAfterThePolicyOfAnUndoIsDeleted: that a policy is deleted ends no update, also not one with which nodes
// return to the committed revision: the node in the middle of it holds the group, also while it has no pod.
func TestGroupAfterThePolicyOfAnUndoIsDeleted(t *testing.T) {
	for _, undo := range []bool{false, true} {
		w := newWorld(t, "")
		w.s.Set.MaxUnavailable.Value = 1
		w.neighbours = neighbour(policy.ScopeNode, policy.Neighbour{Known: true})
		target := 1
		w.pass(0)
		if got := w.roll(); got != "a" {
			t.Fatal(got)
		}
		if undo {
			w.s.Set.Update, target = 0, 0
			w.pass(time.Second)
			if got := w.roll(); got != "a" {
				t.Fatal(got)
			}
		}
		w.put("a", target, false)
		w.node("a").Last = target
		w.pass(time.Second)
		if _, is := w.out.UnderWay["a"]; !is {
			t.Fatalf("undo %t: in the middle of their update are %v", undo, w.out.UnderWay)
		}
		w.neighbours.Own, w.policies = w.out.UnderWay, nil
		w.pass(time.Second)
		if _, is := w.out.UnderWay["a"]; !is || undo != w.out.Release {
			t.Errorf("undo %t: after the policy was deleted, in the middle of their update are %v", undo, w.out.UnderWay)
		}
		w.node("a").Pods, w.marks[0] = nil, 1
		w.pass(time.Second)
		if _, is := w.out.UnderWay["a"]; !is {
			t.Errorf("undo %t: without a pod, in the middle of their update are %v", undo, w.out.UnderWay)
		}
	}
}

// TestNodesThatLinger: without a policy, a node holds the group until its only pod is available.
func TestNodesThatLinger(t *testing.T) {
	w := newWorld(t, "")
	w.put("b", 1, false)
	w.node("c").Pods = nil
	w.node("d").Pods = append(w.node("d").Pods, w.node("e").Pods...)
	w.node("f").Pods, w.node("f").Fit = nil, rollout.MayStay
	w.node("g").Pods, w.node("g").Gone = nil, true
	nodes := policy.Nodes{"a": "", "b": "", "c": "east", "d": "", "f": "", "g": "", "other": ""}
	still := nodes.Unfinished(&w.s)
	if want := (policy.Nodes{"b": "", "c": "east", "d": ""}); !maps.Equal(still, want) {
		t.Fatalf("%v linger, want %v", still, want)
	}
	var l policy.Ledger
	a, b, g := policy.Set{Name: "a"}, policy.Candidate{Set: policy.Set{Name: "b"}}, policy.Group{Name: "network"}
	l.Record(a, policy.LedgerEntry{Group: "network", UnderWay: nodes, Down: policy.Nodes{"a": "", "b": ""}, Waits: policy.Nodes{"x": ""}, Held: true})
	if !l.Linger(a, still) || l.Linger(a, still) || l.Held(a) {
		t.Error("that a set lingers is no change, or is one twice, or it waits")
	}
	if n := l.See(b, g, nil); len(n.Others) != 1 || !maps.Equal(n.Others[0].UnderWay, still) || !maps.Equal(n.Others[0].Down, policy.Nodes{"b": ""}) {
		t.Errorf("%+v", n.Others)
	}
	if !l.Linger(a, nil) || l.Linger(a, still) || !l.Empty() {
		t.Error("a set that is done is not forgotten")
	}
}
