// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// neighbour is another set of the group network.
func neighbour(scope policy.Scope, o policy.Neighbour) *policy.Neighbours {
	o.Set = policy.Set{Namespace: "default", Name: "other"}
	return &policy.Neighbours{Group: policy.Group{Name: "network", Scope: scope}, Others: []policy.Neighbour{o}}
}

// held are the nodes that wait for the group.
func (w *world) held() string {
	var held []string
	for _, v := range strings.Fields(w.verdicts()) {
		if name, is := strings.CutSuffix(v, ":wait-group"); is {
			held = append(held, name)
		}
	}
	return strings.Join(held, "")
}

func TestGroupHolds(t *testing.T) {
	underWay := policy.Neighbour{Known: true, UnderWay: policy.Nodes{"c": "east"}}
	for _, c := range []struct {
		name       string
		neighbours *policy.Neighbours
		own        policy.Nodes
		held       string
		says       string
	}{
		{"the node", neighbour(policy.ScopeNode, underWay), nil, "c", "1 node waits for the DaemonSet other of the concurrency group network: its update on node c has not ended."},
		{"the zone", neighbour(policy.ScopeZone, underWay), nil, "bcd", "3 nodes wait for the DaemonSet other of the concurrency group network: its update on node c has not ended."},
		{"the cluster", neighbour(policy.ScopeCluster, underWay), nil, "abcdefghij", "10 nodes wait for"},
		{"nothing is known", neighbour(policy.ScopeNode, policy.Neighbour{}), nil, "abcdefghij", "this manager has not decided about it since it started"},
		{"it goes first", neighbour(policy.ScopeZone, policy.Neighbour{Known: true, First: policy.Nodes{"d": "east"}}), nil, "bcd", "it goes first."},
		{
			"it goes first, but this set is at work there",
			neighbour(policy.ScopeZone, policy.Neighbour{Known: true, First: policy.Nodes{"d": "east"}}), policy.Nodes{"b": "east"}, "", "",
		},
		{"being at work there gives no right", neighbour(policy.ScopeZone, underWay), policy.Nodes{"b": "east"}, "bcd", "has not ended"},
		{"it is at rest", neighbour(policy.ScopeCluster, policy.Neighbour{Known: true}), nil, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "")
			for _, name := range []string{"b", "c", "d"} {
				w.labels[name] = map[string]string{"topology.kubernetes.io/zone": "east"}
			}
			w.neighbours = c.neighbours
			w.neighbours.Own = c.own
			w.pass(0)
			if got := w.held(); got != c.held {
				t.Errorf("%q wait, want %q", got, c.held)
			}
			said := ""
			for _, b := range w.out.Status.Blocking {
				said += b.Message
			}
			if !strings.Contains(said, c.says) || c.says == "" && said != "" {
				t.Errorf("it says %q, want %q", said, c.says)
			}
			if w.out.Status.Phase != v1alpha1.PhaseRolling {
				t.Errorf("phase %s", w.out.Status.Phase)
			}
		})
	}
}

// TestGroupHoldsWhereANodeIsNow: a node whose zone has changed since the other set has decided holds both zones, and itself.
func TestGroupHoldsWhereANodeIsNow(t *testing.T) {
	w := newWorld(t, "")
	for name, zone := range map[string]string{"a": "west", "b": "west", "c": "east", "d": "east"} {
		w.labels[name] = map[string]string{"topology.kubernetes.io/zone": zone}
	}
	w.neighbours = neighbour(policy.ScopeZone, policy.Neighbour{Known: true, UnderWay: policy.Nodes{"c": "west"}})
	w.pass(0)
	if got := w.held(); got != "abcd" {
		t.Errorf("%q wait, want abcd", got)
	}
	if why := w.neighbours.Why("c", w.labels["c"]); !strings.Contains(why, "has not ended") {
		t.Errorf("the node says %q", why)
	}
}

// TestGroupHoldsWithdrawal: nodes do not return to the committed revision at a place where another set is at work.
func TestGroupHoldsWithdrawal(t *testing.T) {
	w := newWorld(t, "")
	w.put("c", 1, true)
	w.put("d", 1, true)
	w.s.Set.Update = 0
	w.neighbours = neighbour(policy.ScopeNode, policy.Neighbour{Known: true, UnderWay: policy.Nodes{"c": ""}})
	w.pass(0)
	w.want("d", v1alpha1.PhaseRolling, "")
}

// TestSetsThatAreDownDoNotWaitForEachOther: after a start of the manager two sets count as at work on a node where neither has an available pod, of whatever
// revision, or one has none. One of them starts there, and the other one waits then.
func TestSetsThatAreDownDoNotWaitForEachOther(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"broken":                           func(w *world) { w.put("c", 0, false) },
		"only the new template selects it": func(w *world) { tolerates(w, "c", rollout.MustLeave) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "waves: [{name: all, nodes: {percent: 100}}]")
			change(w)
			for _, c := range []struct {
				down policy.Nodes
				held string
			}{{policy.Nodes{"c": ""}, "abdefghij"}, {nil, "abcdefghij"}} {
				w.neighbours = neighbour(policy.ScopeCluster, policy.Neighbour{Known: true, UnderWay: policy.Nodes{"c": ""}, Down: c.down})
				w.neighbours.Fresh = true
				w.pass(0)
				if _, is := w.out.UnderWay["c"]; !is {
					t.Fatalf("%v are in the middle of their update, want c", w.out.UnderWay)
				}
				if _, is := w.out.Down["c"]; !is {
					t.Errorf("%v lack an available pod and wait, want c", w.out.Down)
				}
				if got := w.held(); got != c.held {
					t.Errorf("if the other set is down on %v, %q wait, want %q", c.down, got, c.held)
				}
			}
		})
	}
}

func TestUnderWay(t *testing.T) {
	under := func(w *world) string {
		names := make([]string, 0, len(w.out.UnderWay))
		for name := range w.out.UnderWay {
			names = append(names, name)
		}
		slices.Sort(names)
		return strings.Join(names, "")
	}
	w := newWorld(t, "unreachableAfter: 5s")
	w.neighbours = neighbour(policy.ScopeNode, policy.Neighbour{Known: true})
	w.put("a", 1, true)  // updated
	w.put("b", 1, false) // starts
	w.put("c", 0, false) // broken before it was touched
	w.node("d").Pods[0].Deleting = true
	w.node("e").Pods, w.node("e").Last = nil, 1 // deleted for the update
	w.node("f").Pods = nil                      // has never had a pod
	w.put("g", 1, false)
	w.node("g").Ready, w.node("g").Since = false, noon-10e9 // left out
	w.pass(0)
	if got := under(w); got != "bde" {
		t.Errorf("%q are in the middle of their update", got)
	}

	// A manager that has just started does not know what f had. The node counts until it has a pod: the create may be slow, or refused.
	w.neighbours.Fresh = true
	w.pass(0)
	if got := under(w); got != "bcdef" {
		t.Errorf("after a start of the manager %q are in the middle of their update", got)
	}
	w.neighbours.Fresh, w.neighbours.Own = false, w.out.UnderWay
	w.pass(0)
	if got := under(w); got != "bcdef" {
		t.Errorf("after the next decision %q are in the middle of their update", got)
	}
	w.neighbours.Own = nil

	// What has no answer may have begun: a create next to the old pod, and an edit that takes the old pod out of use.
	w.node("h").Unanswered, w.node("i").Pods[0].Doubtful = true, true
	w.pass(0)
	if got := under(w); got != "bdehi" {
		t.Errorf("while writes have no answer %q are in the middle of their update", got)
	}
	w.node("h").Unanswered, w.node("i").Pods[0].Doubtful = false, false

	// The next revision: what did not start is still down.
	w.s.Revisions, w.marks, w.s.Set.Update = append(w.s.Revisions, rollout.Revision{Name: "v3", Number: 3, Created: noon}), []int64{1, 0, 0}, 2
	w.pass(0)
	if got := under(w); got != "bde" {
		t.Errorf("after the template has changed %q are in the middle of their update", got)
	}
	w.neighbours = neighbour(policy.ScopeCluster, policy.Neighbour{Known: true, UnderWay: policy.Nodes{"z": ""}})
	w.pass(0)
	if got := w.held(); strings.Contains(got, "b") || !strings.Contains(got, "a") {
		t.Errorf("%q wait, but the pod of b is replaced, because it is down already", got)
	}

	// At rest, a pod that fails is no update, unless it was in the middle of one before.
	rest := newWorld(t, "")
	rest.s.Set.Update = 0
	rest.neighbours = neighbour(policy.ScopeNode, policy.Neighbour{Known: true})
	rest.put("b", 0, false)
	rest.put("c", 0, false)
	rest.neighbours.Own = policy.Nodes{"c": "", "d": ""}
	rest.pass(0)
	if got := under(rest); got != "c" {
		t.Errorf("at rest %q are in the middle of their update", got)
	}
}

// TestANodeThatWasBrokenBeforeStaysUnderWay: the waves go on without a node whose pod was broken before its update, but another set of the group does not start
// there as long as the update that has begun there goes on.
func TestANodeThatWasBrokenBeforeStaysUnderWay(t *testing.T) {
	w := newWorld(t, "failure: {nodeDeadline: 5m, maxFailedNodes: 1, action: Pause}\nunreachableAfter: 5s")
	w.neighbours = neighbour(policy.ScopeNode, policy.Neighbour{Known: true})
	want := func(when string, is bool) {
		t.Helper()
		w.pass(time.Second)
		if _, got := w.out.UnderWay["c"]; got != is {
			t.Errorf("%s: in the middle of its update: %t, want %t", when, got, is)
		}
		w.neighbours.Own = w.out.UnderWay
	}
	w.put("c", 0, false)
	want("before its update", false)
	if !slices.Equal(w.out.Status.NotReadyBefore, []string{"c"}) {
		t.Fatalf("broken before are %v, want c", w.out.Status.NotReadyBefore)
	}
	w.neighbours.Own = policy.Nodes{"c": ""} // the plan of the last decision has begun there
	w.put("c", 1, false)
	want("after its update has begun", true)
	want("a moment later", true)
	w.node("c").Ready, w.node("c").Since = false, w.s.Now
	w.pass(0)
	w.pass(10 * time.Second)
	want("while the node cannot be reached", false)
	w.node("c").Ready = true
	want("when it can be reached again", true)
	w.neighbours.Own = nil
	w.node("c").Pods[0].Created -= rollout.Time(11 * time.Minute)
	want("long after its update has begun", false)
	w.put("c", 1, true)
	want("when its pod is available", false)
}

func TestScopes(t *testing.T) {
	node, zone := read(t, "concurrencyGroup: {name: network, scope: Node}"), read(t, "concurrencyGroup: {name: network, scope: Zone}")
	cluster, none := read(t, "concurrencyGroup: {name: storage, scope: Cluster}"), read(t, "")
	all := []*policy.Policy{node, zone, cluster, none}
	if got := policy.Widest("network", all); got.Scope != policy.ScopeZone {
		t.Errorf("%+v", got)
	}
	if got := policy.Widest("storage", all); got.Scope != policy.ScopeCluster {
		t.Errorf("%+v", got)
	}
	if got := policy.Members("network", all); len(got) != 2 || got[0] != node || got[1] != zone {
		t.Errorf("%v", got)
	}
}

func TestLedger(t *testing.T) {
	var l policy.Ledger
	set := func(name string, created rollout.Time) policy.Candidate {
		return policy.Candidate{Set: policy.Set{Namespace: "default", Name: name}, Created: created}
	}
	a, b := set("a", 2), set("b", 1)
	g := policy.Group{Name: "network"}
	all := []policy.Candidate{a, b}
	if n := l.See(a, g, all); len(n.Others) != 1 || n.Others[0].Known || n.Own != nil {
		t.Fatalf("%+v", n)
	}
	begun := policy.LedgerEntry{Group: "network", UnderWay: policy.Nodes{"n1": "east"}, Waits: policy.Nodes{"n2": "west"}, Held: true}
	if !l.Record(b.Set, begun) {
		t.Error("a set that becomes known changes nothing")
	}
	if l.Record(b.Set, begun) || !l.Held(b.Set) || l.Held(a.Set) {
		t.Error("the same again is a change, or who waits is wrong")
	}
	if n := l.See(a, g, all); !n.Others[0].Known || n.Others[0].UnderWay["n1"] != "east" || n.Others[0].First["n2"] != "west" {
		t.Errorf("the older set goes first: %+v", n)
	}
	waits := policy.LedgerEntry{Group: "network", Waits: policy.Nodes{"n2": "west"}, Held: true}
	l.Record(a.Set, waits)
	if n := l.See(b, g, all); n.Others[0].First != nil || n.Own["n1"] != "east" {
		t.Errorf("the younger set goes first: %+v", n)
	}
	if !l.Passes(b.Set) || l.Passes(b.Set) {
		t.Error("a set that cannot decide goes first, or is forgotten")
	}
	if n := l.See(a, g, all); n.Others[0].UnderWay["n1"] != "east" || n.Others[0].First != nil {
		t.Errorf("%+v", n)
	}
	if !l.Forget(b.Set, true) || l.Forget(b.Set, true) || l.Passes(b.Set) {
		t.Error("forgetting twice is a change")
	}
	if n := l.See(a, g, all); n.Others[0].Known {
		t.Errorf("%+v", n)
	}
	if !l.Forget(b.Set, false) || l.Forget(b.Set, false) {
		t.Error("a set that others wait for leaves, and that is no change, or is one twice")
	}
	l.See(b, policy.Group{Name: "storage"}, nil) // looking changes no entry, and nothing of what is recorded next
	if l.Record(a.Set, waits) {
		t.Error("the same group is a change")
	}
	waits.Group = "storage"
	if !l.Record(a.Set, waits) {
		t.Error("another group is no change")
	}
}
