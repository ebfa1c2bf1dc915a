// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// chance makes a cluster in which anything may be under way.
func chance(r *rand.Rand) rollout.Snapshot {
	s := cluster(1 + r.IntN(12))
	set := &s.Set
	set.MaxUnavailable = rollout.Quantity{Value: 1 + r.IntN(4)}
	if r.IntN(3) == 0 {
		set.MaxUnavailable = rollout.Quantity{Value: 10 + r.IntN(60), Percent: true}
	}
	if r.IntN(4) == 0 {
		set.MaxSurge = rollout.Quantity{Value: 1 + r.IntN(3)}
	}
	set.MinReady = time.Duration(r.IntN(3)) * time.Second
	set.Descending, set.Paused, set.Selective, set.Progressive = r.IntN(2) == 0, r.IntN(8) == 0, r.IntN(6) == 0, r.IntN(6) == 0
	set.Unreachable = rollout.Unreachable{Skip: r.IntN(3) == 0, AttributionWindow: time.Minute}
	set.InPlace = r.IntN(3) == 0
	s.Revisions[0].InPlace = r.IntN(2) == 0
	if r.IntN(4) == 0 {
		set.Partition = rollout.Quantity{Value: r.IntN(5)}
	}
	if r.IntN(10) == 0 {
		set.Strategy = rollout.OnDelete
	}
	for i := range s.Nodes {
		happen(r, &s.Nodes[i])
	}
	return s
}

// happen lets something have happened to a node.
func happen(r *rand.Rand, n *rollout.Node) {
	p := &n.Pods[0]
	n.Selected = r.IntN(2) == 0
	switch r.IntN(12) {
	case 0:
		noPod(n)
	case 1:
		notReady(n)
		p.Ready = r.IntN(2) == 0
	case 2:
		p.Ready = false
	case 3:
		p.Deleting, p.DeletedAt = true, begin
	case 4:
		p.Phase, p.Ready = rollout.Failed, false
	case 5:
		n.Fit = []rollout.Fit{rollout.MayStay, rollout.MustLeave}[r.IntN(2)]
	case 6:
		p.Revision = 1
	case 7:
		p.Hook = rollout.HookArmed
	case 8:
		p.Gate = false
	}
}

// down counts, with as little thought as possible, the nodes that have to run a pod and have none that is available.
func down(s *rollout.Snapshot) int {
	count := 0
	for _, n := range s.Nodes {
		serves := false
		for _, p := range n.Pods {
			long := s.Set.MinReady == 0 || s.Now.Sub(p.ReadySince) >= s.Set.MinReady
			serves = serves || p.Ready && !p.Deleting && p.Phase == rollout.Running && p.InPlace == rollout.InPlaceNone && long
		}
		if n.Fit == rollout.MustRun && !n.Gone && !serves {
			count++
		}
	}
	return count
}

// broken plays a plan and says which promise it breaks.
func broken(s rollout.Snapshot, decide func(rollout.Snapshot) rollout.Plan) string {
	a := times()
	a.Hook = time.Duration(int64(len(s.Nodes)%3)-1) * time.Second
	p := newSimulator(s, a)
	p.decide = decide
	before, most := down(&s), 0
	p.seen = func(w *rollout.World) { most = max(most, down(&w.State)) }
	r, err := p.run()
	if err != nil {
		return err.Error()
	}
	limit := s.Set.MaxUnavailable.Of(desired(&s))
	if s.Set.Strategy == rollout.OnDelete || s.Set.MaxSurge.Value > 0 {
		limit = 0
	}
	if s.Set.Unreachable.Skip {
		limit += away(&s) // they use up no budget
	}
	switch {
	case most > max(before, limit):
		return fmt.Sprintf("%d are down at once, %d were before, the budget is %d\n%s", most, before, limit, table(r))
	case most > r.MostDown:
		return fmt.Sprintf("%d are down at once, the plan says %d\n%s", most, r.MostDown, table(r))
	case len(r.Nodes) != len(s.Nodes):
		return fmt.Sprintf("%d nodes have an outcome, there are %d", len(r.Nodes), len(s.Nodes))
	}
	return outcomes(s, r)
}

func desired(s *rollout.Snapshot) int {
	count := 0
	for _, n := range s.Nodes {
		if n.Fit == rollout.MustRun && !n.Gone {
			count++
		}
	}
	return count
}

func away(s *rollout.Snapshot) int {
	count := 0
	for _, n := range s.Nodes {
		if !n.Ready {
			count++
		}
	}
	return count
}

// outcomes says whose outcome does not fit its node.
func outcomes(s rollout.Snapshot, r Result) string {
	known := map[Verdict]bool{}
	for _, v := range Verdicts() {
		known[v] = true
	}
	for i, n := range r.Nodes {
		switch {
		case n.Name != s.Nodes[i].Name || !known[n.Verdict]:
			return fmt.Sprintf("%s has the outcome %s of %s", s.Nodes[i].Name, n.Verdict, n.Name)
		case n.Verdict.Starts() != (n.Wave > 0):
			return fmt.Sprintf("%s has the outcome %s in wave %d", n.Name, n.Verdict, n.Wave)
		case n.Verdict == Recreate && len(s.Nodes[i].Pods) == 0:
			return fmt.Sprintf("%s has no pod that could be recreated", n.Name)
		}
		for _, o := range r.Nodes[:i] {
			if n.Verdict.Starts() && o.Verdict.Starts() && n.Update == o.Update && (n.Place < o.Place) != (n.Start < o.Start) && n.Start != o.Start {
				return fmt.Sprintf("%s and %s start in another order than their places\n%s", n.Name, o.Name, table(r))
			}
		}
	}
	return ""
}

// TestPlans: in whatever state a cluster is, a plan never has more nodes down at once than its budget and what is broken already; every
// node has one outcome; and it comes out the same each time.
func TestPlans(t *testing.T) {
	for seed := range uint64(3000) {
		s := chance(rand.New(rand.NewPCG(seed, 1)))
		if bad := broken(s, rollout.Decide); bad != "" {
			t.Fatalf("seed %d: %s", seed, bad)
		}
		one, err := Simulate(s, times())
		two, again := Simulate(s, times())
		if err != nil || again != nil || !reflect.DeepEqual(one, two) {
			t.Fatalf("seed %d: two plans differ: %v %v\n%s\n%s", seed, err, again, table(one), table(two))
		}
	}
}

// TestPlansCanBeWrong: the properties see a decision that is wrong.
func TestPlansCanBeWrong(t *testing.T) {
	for name, mutant := range map[string]func(rollout.Snapshot) rollout.Plan{
		"takes one more than the budget": func(s rollout.Snapshot) rollout.Plan {
			s.Set.MaxUnavailable = rollout.Quantity{Value: s.Set.MaxUnavailable.Of(desired(&s)) + 1}
			return rollout.Decide(s)
		},
		"does not wait until a pod is available": func(s rollout.Snapshot) rollout.Plan {
			s = s.Copy()
			for i := range s.Nodes {
				for k := range s.Nodes[i].Pods {
					p := &s.Nodes[i].Pods[k]
					p.Ready, p.ReadySince = p.Ready || p.Revision == s.Set.Update, 1
				}
			}
			return rollout.Decide(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3000) {
				if broken(chance(rand.New(rand.NewPCG(seed, 1))), mutant) != "" {
					return
				}
			}
			t.Error("nothing is wrong with it")
		})
	}
}
