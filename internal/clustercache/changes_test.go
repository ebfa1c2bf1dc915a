// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// TestChangesLeaveNothingBehind: an Index that has seen pods change in every way knows what one knows that sees only how they are in the end.
func TestChangesLeaveNothingBehind(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		one := func(n int) bool { return rng.IntN(n) == 0 }
		f, end := newFixture(t), newFixture(t)
		pods := map[string]Pod{}
		for _, g := range []*fixture{f, end} {
			for i := range 4 {
				g.node(fmt.Sprint("n", i))
			}
			g.set("s0")
			g.set("s1")
			agents := g.workload("s2", 1, map[string]any{})
			agents.Namespace = everynode.AgentNamespace
			g.x.PutSet(Key{Dialect: "native", Namespace: agents.Namespace, Name: "s2"}, agents)
		}
		for range 60 {
			name := fmt.Sprint("p", rng.IntN(5))
			p, known := pods[name]
			switch {
			case one(8):
				delete(pods, name)
				f.x.DeletePod(types.UID(name), f.next())
				continue
			case !known || one(8):
				p = pod(name, fmt.Sprint("n", rng.IntN(5)), []string{"", "s0", "s1", "s2"}[rng.IntN(4)])
			}
			if one(20) {
				p.Node = ""
			}
			if one(3) {
				p.Labels = map[string]string{"app": []string{"s0", "s1"}[rng.IntN(2)], hashLabel: []string{"h1", "h2"}[rng.IntN(2)]}
			}
			if one(6) {
				p.Namespace, p.Labels = everynode.AgentNamespace, map[string]string{everynode.AgentLabel: everynode.AgentName}
			}
			if one(6) {
				p.Facts = &dialect.PodFacts{Announced: dialect.Announced{Said: one(2), Old: one(2), Hash: "h1"}}
			}
			p.Ready, p.Deleting, p.Restarts, p.OtherRestarts = one(2), one(4), uint16(rng.IntN(3)), uint16(rng.IntN(2))
			pods[name] = f.put(p)
		}
		for _, name := range slices.Sorted(maps.Keys(pods)) {
			end.x.PutPod(pods[name])
		}
		if got, want := f.knows(), end.knows(); got != want {
			t.Fatalf("seed %d\n got %s\nwant %s", seed, got, want)
		}
	}
}

// knows renders all that the pods of an Index lead to.
func (f *fixture) knows() string {
	var b strings.Builder
	names := func(ps podSet) []types.UID { return slices.Sorted(maps.Keys(ps)) }
	for _, name := range []string{"s0", "s1"} {
		key := Key{Dialect: "native", Namespace: "ns", Name: name}
		for _, n := range f.snapshot(key).Nodes {
			slices.SortFunc(n.Pods, func(a, b rollout.Pod) int { return strings.Compare(a.Name, b.Name) })
			fmt.Fprintf(&b, "%+v\n", n)
		}
		s := f.x.sets[key]
		fmt.Fprintln(&b, name, "announced", s.announced, "pods", s.podCount, "unplaced", names(s.unplaced), "foreign", names(s.foreign), "adoptable", names(s.adoptable))
	}
	fmt.Fprintln(&b, "agents", f.x.Agents())
	for _, id := range slices.Sorted(maps.Keys(f.x.labels)) {
		fmt.Fprintf(&b, "labels %q used %d\n", id, f.x.labels[id].uses)
	}
	for _, name := range slices.Sorted(maps.Keys(f.x.nodes.byName)) {
		fmt.Fprintln(&b, name, "pods", f.x.nodes.byName[name].pods)
	}
	for _, owner := range slices.Sorted(maps.Keys(f.x.withoutSet)) {
		fmt.Fprintln(&b, "without a set", owner, names(f.x.withoutSet[owner]))
	}
	return b.String()
}

// TestAPodThatHasGoneIsNotBlocked: a block of a pod without a node ends when the pod goes, so that it does not concern the pod when that comes back.
func TestAPodThatHasGoneIsNotBlocked(t *testing.T) {
	f := newFixture(t)
	key := f.set("ds")
	orphan := pod("orphan", "", "")
	orphan.Labels = map[string]string{"app": "ds"}
	adopt := func() (names []string) {
		for _, p := range f.x.Ownership(key, 1).Adopt {
			names = append(names, p.Name)
		}
		return names
	}
	want := func(want ...string) {
		t.Helper()
		if got := adopt(); !reflect.DeepEqual(got, want) {
			t.Errorf("to adopt: %v, want %v", got, want)
		}
	}
	f.put(orphan)
	want("orphan")
	f.x.Block(inflight.Write{Verb: inflight.Claim, Set: key, UID: orphan.UID}, inflight.Block{Until: 1000})
	want()
	f.x.ForgetPod(orphan.UID)
	f.put(orphan)
	want("orphan")
}
