// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/rollout"
)

// TestAgainstADumbModel plays random events to an Index and to a plain list of objects, and compares what both know.
func TestAgainstADumbModel(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f := newFixture(t)
		nodes, pods, sets := map[string]bool{}, map[string]Pod{}, map[string]bool{}
		name := func(prefix string, n int) string { return fmt.Sprint(prefix, rng.IntN(n)) }
		for range 300 {
			switch rng.IntN(9) {
			case 0:
				n := name("n", 6)
				nodes[n] = true
				f.x.PutNode(Node{Name: n, RV: f.next(), Ready: rng.IntN(2) == 0, Since: rollout.Time(f.rv), Created: rollout.Time(f.rv / 50)})
			case 8: // a Snapshot puts the nodes in order, which has to be kept from then on
				f.x.mu.Lock()
				f.x.nodes.sorted()
				f.x.mu.Unlock()
			case 1:
				n := name("n", 6)
				delete(nodes, n)
				f.x.DeleteNode(n)
			case 2:
				s := name("s", 3)
				sets[s] = true
				f.set(s)
			case 3:
				s := name("s", 3)
				delete(sets, s)
				f.x.DeleteSet(Key{Dialect: "native", Namespace: "ns", Name: s})
			case 4, 5:
				p := pod(name("p", 12), name("n", 6), []string{"", "s0", "s1", "s2"}[rng.IntN(4)])
				pods[p.Name] = f.put(p)
			case 6:
				p := name("p", 12)
				delete(pods, p)
				f.x.DeletePod(types.UID(p), f.next())
			case 7:
				var list []*Pod
				for _, p := range pods {
					list = append(list, &p)
				}
				f.x.ReplacePods(list, f.next())
			}
		}
		for s := range sets {
			if got, want := shape(f.snapshot(Key{Dialect: "native", Namespace: "ns", Name: s})), dumbShape(nodes, pods, s); got != want {
				t.Fatalf("seed %d, set %s\n got %s\nwant %s", seed, s, got, want)
			}
		}
		f.checkOrder()
		f.x.ReplacePods(nil, f.next())
		f.x.ReplaceNodes(nil, f.next())
		for key, s := range f.x.sets {
			if len(s.missing) != 0 {
				t.Fatalf("seed %d: when all pods and nodes are gone, %s has cells for nodes that are not there: %v", seed, key, s.missing)
			}
		}
		if x := f.x; len(x.pods)+len(x.labels)+len(x.origins)+len(x.nodes.byName)+len(x.withoutSet)+len(x.orphans) != 0 {
			t.Fatalf("seed %d: when all pods and nodes are gone, something is kept: %v %v %v %v %v %v", seed, x.pods, x.labels, x.origins, x.nodes.byName, x.withoutSet, x.orphans)
		}
	}
}

// checkOrder compares the order of nodes that was kept with one that is made anew.
func (f *fixture) checkOrder() {
	f.t.Helper()
	kept := slices.Clone(f.x.nodes.sorted())
	f.x.nodes.order = nil
	if anew := f.x.nodes.sorted(); !slices.Equal(kept, anew) {
		f.t.Fatalf("the order of nodes is\n%+v\nand should be\n%+v", kept, anew)
	}
}

func dumbShape(nodes map[string]bool, pods map[string]Pod, set string) string {
	on := map[string][]string{}
	for n := range nodes {
		on[n] = []string{}
	}
	for _, p := range pods {
		if p.Owner == types.UID("uid-"+set) {
			on[p.Node] = append(on[p.Node], p.Name)
		}
	}
	out := ""
	for _, n := range slices.Sorted(maps.Keys(on)) {
		fit := rollout.MustLeave
		if nodes[n] {
			fit = rollout.MustRun
		}
		slices.Sort(on[n])
		out += fmt.Sprintf("%s=%s%v ", n, fit, on[n])
	}
	return out
}
