// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// vanish removes nodes.
func (w *world) vanish(names string) {
	w.s.Nodes = slices.DeleteFunc(w.s.Nodes, func(n rollout.Node) bool { return strings.Contains(names, n.Name) })
}

// wave is a wave of the last status.
func (w *world) wave(name string) v1alpha1.WaveStatus {
	w.t.Helper()
	k := slices.IndexFunc(w.out.Status.Waves, func(s v1alpha1.WaveStatus) bool { return s.Name == name })
	if k < 0 {
		w.t.Fatalf("no wave %s in %+v", name, w.out.Status.Waves)
	}
	return w.out.Status.Waves[k]
}

// TestNodesThatVanish: no other node takes the place of one on which the update has begun, also when another manager takes over.
func TestNodesThatVanish(t *testing.T) {
	for name, spec := range map[string]string{
		"count":   "waves: [{name: canary, nodes: {count: 2}, soak: 10s}]",
		"percent": "waves: [{name: canary, nodes: {percent: 20}, soak: 10s}]",
		"spread":  "waves: [{name: canary, nodes: {count: 2, spreadBy: [zone]}, soak: 10s}]",
	} {
		for _, lead := range []bool{false, true} {
			t.Run(fmt.Sprint(name, lead), func(t *testing.T) {
				w := newWorld(t, spec)
				w.labels = map[string]map[string]string{"a": {"zone": "1"}, "b": {"zone": "2"}, "c": {"zone": "1"}}
				w.pass(0)
				w.want("ab", v1alpha1.PhaseRolling, "canary")
				w.pass(time.Second)
				w.vanish("a")
				if lead {
					w.lead()
				}
				w.pass(time.Second)
				w.want("", v1alpha1.PhaseSoaking, "canary")
				if s := w.wave("canary"); s.Nodes != 1 || s.Gone != 1 || !slices.Equal(s.Begun, []string{"b"}) {
					t.Errorf("%+v", s)
				}
				w.vanish("b")
				if lead {
					w.lead()
				}
				w.pass(time.Minute)
				w.want("", v1alpha1.PhaseStalled, "canary")
				if b := w.out.Status.Blocking[0]; b.Reason != "NodesGone" || !strings.Contains(b.Message, "on 2 nodes of the wave canary") {
					t.Errorf("%+v", b)
				}
				w.lead()
				w.pass(time.Minute)
				w.want("", v1alpha1.PhaseStalled, "canary")
				w.approve("yes", "canary", "v2", v1alpha1.Promote)
				w.pass(0)
				w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
			})
		}
	}
}

// TestPlacesOfNodes: a node on which no update has begun leaves its place to another one, one that comes back has it again, and another node with its name has
// not. A node that is back, or has joined, takes the place of no other.
func TestPlacesOfNodes(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 10s}]")
	w.s.Set.MaxUnavailable.Value = 1
	w.node("c").Joined = 1
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.vanish("b")
	w.pass(0)
	w.want("c", v1alpha1.PhaseRolling, "canary")
	w.pass(0)
	if s := w.wave("canary"); s.Gone != 0 || s.Nodes != 2 {
		t.Errorf("%+v", s)
	}
	w.join("b", 0, 0)
	w.pass(0)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if s := w.wave("canary"); !slices.Equal(s.Begun, []string{"a", "c"}) {
		t.Errorf("%+v", s)
	}
	w.node("c").Fit = rollout.MustLeave
	w.pass(0)
	if s := w.wave("canary"); s.Gone != 0 || s.Nodes != 1 || !slices.Equal(s.Begun, []string{"a", "c"}) {
		t.Errorf("%+v", s)
	}
	w.node("c").Fit = rollout.MustRun
	w.pass(0)
	if s := w.wave("canary"); s.Gone != 0 || s.Nodes != 2 {
		t.Errorf("%+v", s)
	}
	w.vanish("c")
	w.join("c", w.s.Now, 0)
	w.pass(0)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if s := w.wave("canary"); s.Gone != 1 || s.Nodes != 1 {
		t.Errorf("%+v", s)
	}
	// The next revision begins with all places.
	w.change("v3")
	w.pass(0)
	if s := w.wave("canary"); s.Gone != 0 || s.Nodes != 2 {
		t.Errorf("%+v", s)
	}
}

// TestNodesThatVanishAfterTheSoak: a wave that has soaked has shown that the revision works.
func TestNodesThatVanishAfterTheSoak(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 10s, after: [{type: Approval}]}]")
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.pass(10 * time.Second)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	w.vanish("ab")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.pass(0)
	w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
}

// TestNodesThatReturn: nodes that leave a wave for a time have their places again when they return, also when other managers have taken over in the meantime. A
// stalled wave counts none of them twice, so the next wave has all its nodes.
func TestNodesThatReturn(t *testing.T) {
	for _, left := range []string{"a", "ab"} {
		for leads := range 4 {
			w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 10s}, {name: half, nodes: {percent: 50}, soak: 1h}]")
			w.pass(0)
			w.want("ab", v1alpha1.PhaseRolling, "canary")
			w.pass(time.Second)
			for name := range strings.SplitSeq(left, "") {
				w.node(name).Fit = rollout.MayStay
			}
			w.pass(time.Second)
			for range leads {
				w.lead()
				w.pass(time.Second)
			}
			if left == "ab" {
				w.want("", v1alpha1.PhaseStalled, "canary")
				if b := w.out.Status.Blocking[0]; !strings.Contains(b.Message, "on 2 nodes of the wave canary") {
					t.Errorf("%+v", b)
				}
			}
			for name := range strings.SplitSeq(left, "") {
				w.node(name).Fit = rollout.MustRun
			}
			w.pass(time.Second)
			if s := w.wave("canary"); s.Nodes != 2 || s.Gone != 0 {
				t.Errorf("%+v", s)
			}
			w.pass(time.Minute)
			w.want("cde", v1alpha1.PhaseRolling, "half")
		}
	}
}

// TestSpreadOfNodesThatHaveBegun: nodes that have begun count when others are spread.
func TestSpreadOfNodesThatHaveBegun(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2, spreadBy: [zone]}, soak: 10s}]")
	w.labels = map[string]map[string]string{"a": {"zone": "1"}, "b": {"zone": "1"}, "c": {"zone": "2"}}
	w.s.Set.MaxUnavailable.Value = 1
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(0)
	w.want("c", v1alpha1.PhaseRolling, "canary")
}

// TestPercentOfNodesThatVanish: the places of nodes that are gone are places of a wave with a percentage too.
func TestPercentOfNodesThatVanish(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {percent: 50}, soak: 10s}, {name: most, nodes: {percent: 80}}]")
	w.s.Set.MaxUnavailable.Value = 2
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.pass(0)
	w.vanish("ab")
	w.pass(0)
	if canary, most := w.wave("canary"), w.wave("most"); canary.Nodes != 3 || most.Nodes != 3 {
		t.Errorf("%+v, %+v", canary, most)
	}
	w.want("cd", v1alpha1.PhaseRolling, "canary")
}

// TestGrowthOfNodesThatVanish: a step of which no node is left holds the next ones.
func TestGrowthOfNodesThatVanish(t *testing.T) {
	begin := func() *world {
		w := newWorld(t, "waves: [{name: all, nodes: {percent: 100}, growth: {start: 2, factor: 2}, soak: 10s}]")
		w.pass(0)
		w.want("ab", v1alpha1.PhaseRolling, "all")
		w.put("a", 1, false)
		w.put("b", 1, false)
		w.pass(0)
		w.want("", v1alpha1.PhaseRolling, "all")
		return w
	}
	w := begin()
	w.vanish("a")
	w.join("0", w.s.Now, 0)
	w.pass(0)
	w.want("", v1alpha1.PhaseRolling, "all")
	w.put("b", 1, true)
	w.pass(0)
	w.want("0cde", v1alpha1.PhaseRolling, "all")

	w = begin()
	w.vanish("ab")
	w.pass(0)
	w.want("", v1alpha1.PhaseStalled, "all")
	if b := w.out.Status.Blocking[0]; b.Reason != "NodesGone" {
		t.Errorf("%+v", b)
	}
	w.approve("yes", "all", "v2", v1alpha1.Promote)
	w.pass(0)
	w.want("cdef", v1alpha1.PhaseRolling, "all")
}

// TestManyNodesBegun: the status names no nodes of a large wave.
func TestManyNodesBegun(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {percent: 50}, soak: 10s}]")
	for i := range 100 {
		w.join(fmt.Sprintf("k%03d", i), 0, 0)
	}
	w.s.Set.MaxUnavailable.Value = 40
	w.pass(0)
	w.roll()
	w.pass(0)
	if s := w.wave("canary"); len(s.Begun) != 40 {
		t.Errorf("%+v", s)
	}
	w.roll()
	w.pass(0)
	w.vanish("a")
	w.pass(0)
	if s := w.wave("canary"); len(s.Begun) != 0 || s.Gone != 1 || s.Nodes != 54 {
		t.Errorf("%+v", s)
	}
}

// TestNoMoreNodesThanTheWave plays nodes that vanish, join, fall out of the set and return: the update never begins on more nodes than the wave has.
func TestNoMoreNodesThanTheWave(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, []string{
			"waves: [{name: canary, nodes: {count: 3}, soak: 1h}]", "waves: [{name: canary, nodes: {count: 3, spreadBy: [zone]}, soak: 1h}]",
			"waves: [{name: canary, nodes: {percent: 100}, growth: {start: 3, factor: 2}, soak: 1h}]",
		}[seed%3])
		for i := range w.s.Nodes {
			w.s.Nodes[i].Joined = 1
			w.labels[w.s.Nodes[i].Name] = map[string]string{"zone": fmt.Sprint(r.IntN(3))}
		}
		w.s.Set.MaxUnavailable.Value = 1 + r.IntN(3)
		began := map[string]bool{}
		for step := range 30 {
			w.pass(time.Second)
			for name := range strings.SplitSeq(w.roll(), "") {
				switch {
				case name == "":
				case w.node(name).Fit == rollout.MustLeave:
					w.node(name).Pods = nil
				case w.node(name).Pods[0].Revision == 1:
					began[fmt.Sprint(name, w.node(name).Joined)] = true
					w.put(name, 1, seed%3 != 2) // in a wave that grows, none becomes ready
				}
			}
			w.pass(0)
			name := string(rune('a' + r.IntN(26)))
			at := slices.IndexFunc(w.s.Nodes, func(n rollout.Node) bool { return n.Name == name })
			switch {
			case at < 0 && r.IntN(2) == 0:
				w.join(name, w.s.Now, 0)
				w.labels[name] = map[string]string{"zone": fmt.Sprint(r.IntN(3))}
			case at < 0:
			case r.IntN(3) == 0:
				w.s.Nodes[at].Fit = []rollout.Fit{rollout.MustRun, rollout.MustLeave}[r.IntN(2)]
			case r.IntN(2) == 0:
				w.vanish(name)
			default:
				w.lead()
			}
			if len(began) > 3 {
				t.Fatalf("seed %d, step %d: the update has begun on %d nodes", seed, step, len(began))
			}
		}
	}
}

// TestASecondTemplateWithTheSameNumber: users who delete ControllerRevisions can give the rollout of another template the number of the last one. The nodes of that one have begun nothing.
func TestASecondTemplateWithTheSameNumber(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {percent: 20}, soak: 1m}, {name: most, nodes: {percent: 70}}]")
	for range 13 {
		w.pass(10 * time.Second)
		w.roll()
	}
	w.want("", v1alpha1.PhaseComplete, "")
	w.s.Revisions[0].Number, w.s.Revisions[1].Number = 2, 1
	w.s.Set.Update = 0
	w.vanish("a")
	w.pass(time.Second)
	w.want("bc", v1alpha1.PhaseRolling, "canary")
}

// TestSpreadOfANodeThatHasJustBegun: a node that got the revision since the last decision keeps its place when another one is gone at the same time: the place of that one stays empty, although spreadBy
// prefers a node of its zone.
func TestSpreadOfANodeThatHasJustBegun(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 3, spreadBy: [zone]}, soak: 1h}]")
	for name := range strings.SplitSeq("abcdefghij", "") {
		w.labels[name] = map[string]string{"zone": "1"}
	}
	w.labels["b"], w.labels["c"], w.labels["f"] = map[string]string{"zone": "2"}, map[string]string{"zone": "2"}, map[string]string{"zone": "3"}
	w.s.Set.MaxUnavailable.Value = 2
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.want("f", v1alpha1.PhaseRolling, "canary")
	w.vanish("b")
	w.pass(time.Second)
	if got := w.roll(); got != "" {
		t.Errorf("%q takes the place of b, after a, b and f have got the revision, in a canary of 3: %+v", got, w.wave("canary"))
	}
}

// TestLargeWavesUnderAnotherManager: with more nodes than the status names, another manager gives a wave no node on which the update has not begun, while nodes have the revision that had a place.
func TestLargeWavesUnderAnotherManager(t *testing.T) {
	w := &world{
		t: t, measuring: policy.MeasuredHere, unstored: map[string]bool{}, labels: map[string]map[string]string{}, marks: []int64{1, 0}, failed: make([]*everynode.Failure, 2),
		policies: []*policy.Policy{read(t, "waves: [{name: canary, nodes: {count: 60}, soak: 1h}]")},
	}
	w.s = rollout.Snapshot{
		Now: noon, Set: rollout.Set{Strategy: rollout.RollingUpdate, MaxUnavailable: rollout.Quantity{Value: 200}, Update: 1},
		Revisions: []rollout.Revision{{Name: "v1", Number: 1}, {Name: "v2", Number: 2, Created: noon}},
	}
	for i := range 200 {
		w.join(fmt.Sprintf("node-%03d", i), 0, 0)
	}
	w.node("node-000").Fit = rollout.MayStay // it has a taint, for a time
	w.pass(0)
	w.roll()
	w.pass(time.Second)
	if got := w.wave("canary"); got.Available != 60 {
		t.Fatalf("%+v", got)
	}
	w.node("node-000").Fit = rollout.MustRun
	w.pass(time.Second)
	if got := w.roll(); got != "" {
		t.Errorf("under the same manager %q starts", got)
	}
	w.lead()
	w.pass(time.Second)
	if got := w.roll(); got != "" {
		t.Errorf("under another manager %q starts while the wave soaks: %+v", got, w.wave("canary"))
	}
}

// TestSpreadOfNodesThatHaveTheRevision: a wave takes the nodes that have the revision, although spreadBy prefers another zone.
func TestSpreadOfNodesThatHaveTheRevision(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2, spreadBy: [zone]}, soak: 1h}]")
	w.labels["b"], w.labels["c"] = map[string]string{"zone": "2"}, map[string]string{"zone": "2"}
	w.put("b", 1, true)
	w.put("c", 1, true)
	w.pass(0)
	w.want("", v1alpha1.PhaseSoaking, "canary")
}
