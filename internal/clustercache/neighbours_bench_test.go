// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/rollout"
)

// How much the neighbours of a set have, where there are any: as much as somebody makes who wants to be in the way.
const (
	manyOrphans = 100_000
	manySets    = 10_000
	manyNodes   = 1000
)

// tenants adds sets in namespaces of their own.
func tenants(f *fixture, sets int) {
	for i := range sets {
		w := f.workload(fmt.Sprint("tenant", i), 1, nil)
		w.Namespace = fmt.Sprint("space", i)
		f.x.PutSet(Key{Dialect: "native", Namespace: w.Namespace, Name: w.Name}, w)
	}
}

// orphanNumber is a pod without an owner that has the labels of the first tenant's set.
func orphanNumber(i int, space string) Pod {
	p := podNumber(0, i%manyNodes)
	p.UID, p.Name, p.Namespace, p.Owner = types.UID(fmt.Sprintf("orphan-%012x", i)), fmt.Sprintf("orphan-%012x", i), space, ""
	p.Labels = map[string]string{"app": "tenant0"}
	return p
}

// BenchmarkNeighbours is what a set costs, and an event, in a cluster of 1,000 nodes with and without neighbours: 100,000 orphans that a set selects in
// another namespace, and 10,000 sets. bytes/neighbour is the memory of one.
func BenchmarkNeighbours(b *testing.B) {
	h := History{Revisions: []rollout.Revision{{Name: "h1"}}, Index: map[string]int{"h1": 0}, Generation: -1}
	for _, c := range []struct {
		name          string
		orphans, sets int
	}{{"none", 0, 1}, {"orphans", manyOrphans, 1}, {"sets", 0, manySets}} {
		f, keys := clusterOf(b, manyNodes, 1)
		before := heap()
		tenants(f, c.sets)
		for i := range c.orphans {
			f.put(orphanNumber(i, "space0"))
		}
		bytes := float64(heap()-before) / float64(max(c.orphans, c.sets))
		run := func(name string, do func()) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					do()
				}
				if c.name != "none" {
					b.ReportMetric(bytes, "bytes/neighbour")
				}
			})
		}
		var room Buffer
		run("snapshot-of-another", func() { f.x.SnapshotInto(&room, keys[0], h, 1000) })
		run("claims-of-another", func() { f.x.Ownership(keys[0], 1) })
		run("claims", func() { f.x.Ownership(Key{Dialect: "native", Namespace: "space0", Name: "tenant0"}, 1) })
		p, orphan := podNumber(0, 7), orphanNumber(manyOrphans, "space0")
		run("event-of-another", func() {
			p.RV, p.Ready = f.next(), !p.Ready
			f.x.PutPod(p)
		})
		run("event-of-an-orphan", func() {
			orphan.RV, orphan.Ready = f.next(), !orphan.Ready
			f.x.PutPod(orphan)
		})
		node := nodeNumber(7, "")
		run("node-relabelled", func() {
			node = nodeNumber(7, f.next())
			node.Labels["pool"] = node.RV
			f.x.PutNode(node)
		})
	}
}
