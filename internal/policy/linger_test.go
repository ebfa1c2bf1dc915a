// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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

// TestASetThatChangesItsGroup: the nodes in the middle of the update of a set hold the group in which it began, too, until they are done: that a policy names another group ends no update.
func TestASetThatChangesItsGroup(t *testing.T) {
	var l policy.Ledger
	a, b := policy.Set{Namespace: "default", Name: "a"}, policy.Set{Namespace: "default", Name: "b"}
	sees := func(group string, all ...policy.Set) string {
		var members []policy.Candidate
		for _, set := range all {
			members = append(members, policy.Candidate{Set: set})
		}
		names := ""
		for _, o := range l.See(policy.Candidate{Set: b}, policy.Group{Name: group}, members).Others {
			names += fmt.Sprint(o.Set.Name, ":", strings.Join(slices.Sorted(maps.Keys(o.UnderWay)), ","), ":", strings.Join(slices.Sorted(maps.Keys(o.Down)), ","), " ")
		}
		return strings.TrimSpace(names)
	}
	l.Record(a, policy.LedgerEntry{Group: "network", UnderWay: policy.Nodes{"n1": "", "n2": "", "n3": ""}})
	if got := sees("network", b); got != "a:n1,n2,n3:" {
		t.Errorf("before the set has decided in another group, the group sees %q", got)
	}
	l.Record(a, policy.LedgerEntry{Group: "storage", UnderWay: policy.Nodes{"n1": "", "n2": "", "n4": ""}, Down: policy.Nodes{"n2": "", "n4": ""}})
	if got := sees("network", b); got != "a:n1,n2:n2" {
		t.Errorf("after the set has decided in another group, the group sees %q", got)
	}
	if got := sees("storage", a, b); got != "a:n1,n2,n4:n2,n4" {
		t.Errorf("the other group sees %q", got)
	}
	l.Record(a, policy.LedgerEntry{Group: "third", UnderWay: policy.Nodes{"n2": "", "n4": ""}})
	if got := sees("network", b) + " " + sees("storage", b); got != "a:n2: a:n2,n4:" {
		t.Errorf("in a third group, they see %q", got)
	}
	if l.Linger(a, policy.Nodes{"n2": ""}); sees("network", b) != "a:n2:" {
		t.Errorf("without a policy, the group sees %q", sees("network", b))
	}
	if changed := l.Record(a, policy.LedgerEntry{Group: "third", UnderWay: policy.Nodes{"n5": ""}}); !changed || sees("network", b) != "" {
		t.Errorf("after the update has ended on them (%t), the group sees %q", changed, sees("network", b))
	}
}
