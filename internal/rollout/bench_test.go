// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"testing"
)

// fleetOf is a set on n nodes with the given pods each; %10 of them may be unavailable.
func fleetOf(n int, pods func(i int) []Pod) Snapshot {
	s := oneNode()
	s.Set.MaxUnavailable = Quantity{Value: 10, Percent: true}
	s.Nodes = make([]Node, n)
	for i := range s.Nodes {
		s.Nodes[i] = Node{Name: fmt.Sprintf("node-%06d", i), Fit: MustRun, Ready: true, Pods: pods(i)}
	}
	return s
}

// BenchmarkDecide reports the cost per node of three moments: nothing to do, the middle of a roll with a tenth of the nodes in
// flight, and the first pass, when every node lacks its pod.
func BenchmarkDecide(b *testing.B) {
	name := func(i int) string { return fmt.Sprintf("pod-%06d", i) }
	moments := []struct {
		name string
		pods func(total int) func(i int) []Pod
	}{
		{"idle", func(int) func(int) []Pod {
			return func(i int) []Pod { return []Pod{readyPod(name(i), 1)} }
		}},
		{"roll", func(total int) func(int) []Pod {
			return func(i int) []Pod {
				p := readyPod(name(i), 0)
				switch {
				case i < total*4/10:
					p.Revision = 1
				case i < total*5/10:
					p.Revision, p.Ready = 1, i%2 == 0
				}
				return []Pod{p}
			}
		}},
		{"first", func(int) func(int) []Pod {
			return func(int) []Pod { return nil }
		}},
	}
	limited := fleetOf(10000, func(i int) []Pod {
		p := readyPod(name(i), 0)
		p.Gate, p.Hook = true, HookArmed
		return []Pod{p}
	})
	limited.Set.Limits = Limits{Selective: true, Partition: Quantity{Value: 50, Percent: true}, Descending: true}
	b.Run("limited/10000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Decide(limited)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10000, "ns/node")
	})
	untouched := gatedFleet(100000)
	for i := range untouched.Nodes {
		untouched.Nodes[i].Pods[0].Revision = 1
	}
	for gated, held := range map[string]Snapshot{"held": gatedFleet(100000), "untouched": untouched} {
		b.Run("policy-"+gated+"/100000", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Decide(held)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100000, "ns/node")
		})
	}
	for _, m := range moments {
		for _, n := range []int{1000, 10000, 100000} {
			b.Run(fmt.Sprintf("%s/%d", m.name, n), func(b *testing.B) {
				s := fleetOf(n, m.pods(n))
				b.ReportAllocs()
				for b.Loop() {
					Decide(s)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
			})
		}
	}
}

// gatedFleet is a set on n nodes of which a policy holds all but a few back.
func gatedFleet(n int) Snapshot {
	s := fleetOf(n, func(i int) []Pod { return []Pod{readyPod(fmt.Sprint(i), i%2)} })
	s.Gate = &Gate{Holds: make([]VerdictKind, n), InFlight: 10, Starts: -1}
	for i := range s.Gate.Holds {
		s.Gate.Holds[i] = WaitWave
	}
	return s
}

// TestHeldNodesCostNoAllocation of their own.
func TestHeldNodesCostNoAllocation(t *testing.T) {
	allocations := func(n int) float64 {
		s := gatedFleet(n)
		return testing.AllocsPerRun(10, func() { Decide(s) })
	}
	if few, many := allocations(100), allocations(10000); many > few || many > 5 {
		t.Errorf("%v allocations for 100 nodes, %v for 10,000; want the same, at most 5", few, many)
	}
}

// TestUntouchedNodesCostNoAllocation: ten times the nodes, the same number of allocations.
func TestUntouchedNodesCostNoAllocation(t *testing.T) {
	allocations := func(n int) float64 {
		s := fleetOf(n, func(i int) []Pod { return []Pod{readyPod(fmt.Sprint(i), 1)} })
		return testing.AllocsPerRun(10, func() { Decide(s) })
	}
	few, many := allocations(100), allocations(10000)
	if many > few || many > 4 {
		t.Errorf("%v allocations for 100 nodes, %v for 10,000; want the same, at most 4", few, many)
	}
}
