// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// gate reads a line of a script.
func (p *player) gate(words []string) error {
	s := &p.w.State
	g := &Gate{Holds: make([]VerdictKind, len(s.Nodes)), Joining: NoRevision, InFlight: -1, Starts: -1}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		node := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == key })
		kind := slices.IndexFunc(VerdictKinds(), func(k VerdictKind) bool { return k.String() == value })
		var err error
		switch {
		case key == "joining":
			g.Joining = slices.IndexFunc(s.Revisions, func(r Revision) bool { return r.Name == value })
		case key == "in-flight":
			g.InFlight, err = strconv.Atoi(value)
		case word == "creates":
			g.Creates = true
		case word == "newest-first":
			g.NewestFirst = true
		case key == "starts":
			g.Starts, err = strconv.Atoi(value)
		case node >= 0 && kind >= 0:
			g.Holds[node] = VerdictKind(kind)
		default:
			err = fmt.Errorf("%q is neither a setting nor a node with a verdict", word)
		}
		if err != nil {
			return err
		}
	}
	s.Gate = g
	return nil
}

// gate makes what a policy might allow of s.
func (s *source) gate(snapshot *Snapshot) *Gate {
	g := &Gate{Joining: s.pick(len(snapshot.Revisions)+1) - 1, InFlight: s.pick(5) - 1, Starts: s.pick(4) - 1, NewestFirst: s.pick(4) == 0, Creates: s.pick(2) == 0}
	for range snapshot.Nodes {
		g.Holds = append(g.Holds, (append(VerdictKinds()[WaitWave:WaitPolicy+1], notHeld, notHeld, notHeld, notHeld))[s.pick(15)])
		g.Absent = append(g.Absent, s.pick(4) == 0)
	}
	return g
}

// gateViolations are what a plan does against what a policy allows.
func gateViolations(s *Snapshot, p *Plan) (bad []string) {
	d := begin(s)
	starts := 0
	for _, a := range p.Actions {
		if !d.gated() || !d.usable {
			continue
		}
		n, gate := &s.Nodes[a.Node], s.Gate.Holds[a.Node]
		begun, _ := d.progressOf(n)
		changing := slices.ContainsFunc(n.Pods, func(p Pod) bool {
			return p.InPlace != InPlaceNone && (p.InPlace != InPlaceArrived || p.Interrupted || !s.Gate.Creates || n.Refusal != nil)
		})
		starting := !begun && !changing && s.Set.Strategy == RollingUpdate && (a.Reason == Recreating || a.Reason == Surging || a.Kind == Mark || a.Kind == Patch && !s.Set.ClosesGate())
		vanished := !begun && s.Gate.Creates && a.Reason == Creating && a.Revision == s.Set.Update && d.inHistory(n.Last) && n.Last != s.Set.Update && s.Set.Strategy == RollingUpdate
		if starting || vanished {
			starts++
		}
		if gate != notHeld && starting {
			bad = append(bad, fmt.Sprintf("starts on %s, which the policy holds back", n.Name))
		}
		joins := len(n.Pods) == 0 && !d.inHistory(n.Last)
		if a.Kind == Create && gate != notHeld && joins && d.inHistory(s.Gate.Joining) && a.Revision != s.Gate.Joining {
			bad = append(bad, fmt.Sprintf("%s joins with revision %d", n.Name, a.Revision))
		}
	}
	if s.Gate.Starts >= 0 && starts > s.Gate.Starts {
		bad = append(bad, fmt.Sprintf("starts %d updates of %d", starts, s.Gate.Starts))
	}
	return bad
}

// TestGateOnlyRestricts: with a policy the plan keeps to it, charges no more than without one, and is the same where the policy allows everything.
func TestGateOnlyRestricts(t *testing.T) {
	random := rand.New(rand.NewSource(22))
	seen := map[VerdictKind]int{}
	for range 20000 {
		data := make([]byte, 400)
		random.Read(data)
		src := &source{data}
		s := src.snapshot()
		s.Gate = nil
		free := Decide(s)
		open := s
		open.Gate = &Gate{Joining: 0, InFlight: -1, Starts: -1}
		if got := Decide(open); !same(got, free) {
			t.Fatalf("a gate that is open changes the plan\n%s\nwithout it\n%s", show(open, got), printPlan(&s, free))
		}
		s.Gate = src.gate(&s)
		p := Decide(s)
		if bad := gateViolations(&s, &p); len(bad) > 0 {
			t.Fatalf("%s\ngate %+v\n%s", strings.Join(bad, "\n"), *s.Gate, show(s, p))
		}
		for _, v := range p.Verdicts {
			seen[v.Kind]++
		}
		used := func(b Budget) int { return b.UsedByUpdate + b.UsedByOthers + b.UsedByUnreachable }
		if limit := max(p.Budget.Limit, used(free.Budget)); s.Set.Strategy == RollingUpdate && used(p.Budget) > limit {
			t.Fatalf("uses %d of %d\n%s", used(p.Budget), limit, show(s, p))
		}
	}
	for _, kind := range VerdictKinds() {
		if kind.OfPolicy() && seen[kind] < 10 {
			t.Errorf("only %d nodes have the verdict %s", seen[kind], kind)
		}
	}
}

// TestGateMutants: what TestGateOnlyRestricts looks for can be found.
func TestGateMutants(t *testing.T) {
	play := &player{}
	if _, err := play.do("world", []string{"node a must", "node b must v1:ready", "gate joining=v1 starts=0 a=wait-wave b=wait-wave"}); err != nil {
		t.Fatal(err)
	}
	s := play.w.State
	s.Nodes[0].Last = NoRevision
	for name, do := range map[string]func(p *Plan){
		"starts on a held node": func(p *Plan) { remove(1, Recreating)(s, p) },
		"joins with the newest": func(p *Plan) { p.Actions[0].Revision = 1 },
		"starts too many":       func(p *Plan) { s.Gate.Holds[1] = notHeld; remove(1, Recreating)(s, p) },
	} {
		p := Decide(s)
		if bad := gateViolations(&s, &p); len(bad) > 0 {
			t.Fatalf("before %s: %q", name, bad)
		}
		if do(&p); len(gateViolations(&s, &p)) == 0 {
			t.Errorf("%s: not noticed", name)
		}
		s.Gate.Holds[1] = WaitWave
	}
}

// Of two pods the oldest one counts, as in the status, and nodes that need no pod do not.
func TestCountUpdated(t *testing.T) {
	pod := func(revision int, created Time) Pod {
		return Pod{Revision: revision, Created: created, Phase: Running, Scheduled: true}
	}
	ended := pod(1, 1)
	ended.Deleting, ended.Phase = true, Failed
	s := &Snapshot{Revisions: make([]Revision, 2), Nodes: []Node{
		{Name: "a", Fit: MustRun, Pods: []Pod{pod(1, 5), pod(0, 3)}},
		{Name: "b", Fit: MustRun, Pods: []Pod{pod(1, 5)}},
		{Name: "c", Fit: MustRun, Pods: []Pod{ended, pod(0, 3)}},
		{Name: "d", Fit: MustLeave, Pods: []Pod{pod(1, 5)}},
		{Name: "e", Fit: MustRun},
	}}
	if one, zero := s.CountUpdated(1), s.CountUpdated(0); one != 1 || zero != 2 {
		t.Errorf("%d and %d nodes, want 1 and 2", one, zero)
	}
	for update := range 2 {
		s.Set.Update = update
		if got := Decide(*s).Status.Updated; got != s.CountUpdated(update) {
			t.Errorf("revision %d: %d, and the status says %d", update, s.CountUpdated(update), got)
		}
	}
}
