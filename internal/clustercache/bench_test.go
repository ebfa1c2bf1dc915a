// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/rollout"
)

// sizes are numbers of nodes; setCount is how many sets there are where that matters.
func sizes() []int { return []int{1000, 10000, 100000} }

const setCount = 20

// clusterOf fills an index with n nodes, and that many sets with a ready pod on each of them.
func clusterOf(tb testing.TB, n, sets int) (f *fixture, keys []Key) {
	f = newFixture(tb)
	for i := range n {
		f.x.PutNode(nodeNumber(i, f.next()))
	}
	for s := range sets {
		keys = append(keys, f.set(fmt.Sprint("ds", s)))
		for i := range n {
			f.put(podNumber(s, i))
		}
	}
	return f, keys
}

// nodeNumber is a node as clouds make them.
func nodeNumber(i int, rv string) Node {
	name := fmt.Sprintf("ip-10-%03d-%03d-%03d.internal", i>>16, i>>8&255, i&255)
	return Node{Name: name, RV: rv, Ready: true, Since: 1, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelTopologyZone: fmt.Sprint("zone-", i%3), "pool": fmt.Sprint("pool-", i%10),
	}}
}

// podNumber is the pod of a set on a node. Its strings are its own, as those of a pod are that has just been decoded.
func podNumber(set, i int) Pod {
	owner := fmt.Sprint("ds", set)
	p := pod(fmt.Sprintf("%s-%s%010x", owner, strings.Repeat("x", 30), i), nodeNumber(i, "").Name, owner)
	p.UID = types.UID(fmt.Sprintf("%08x-1111-2222-3333-%012x", set, i))
	p.Phase, p.Ready, p.ReadySince, p.Created = rollout.Running, true, 1, 1
	return p
}

// BenchmarkSnapshot is a pass over a set where there is nothing to do, as far as the pure parts go.
func BenchmarkSnapshot(b *testing.B) {
	h := History{Revisions: []rollout.Revision{{Name: "h1"}}, Index: map[string]int{"h1": 0}, Generation: -1}
	for _, n := range sizes() {
		f, keys := clusterOf(b, n, 1)
		var room Buffer
		f.x.SnapshotInto(&room, keys[0], h, 1000)
		perNode := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
		}
		b.Run(fmt.Sprint("alone/", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.x.SnapshotInto(&room, keys[0], h, 1000)
			}
			perNode(b)
		})
		b.Run(fmt.Sprint("decide/", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s, _, _ := f.x.SnapshotInto(&room, keys[0], h, 1000)
				rollout.Decide(s)
			}
			perNode(b)
		})
	}
}

// BenchmarkEvent is what one event costs the index that holds 20 sets with a pod on every node.
func BenchmarkEvent(b *testing.B) {
	for _, n := range sizes() {
		f, _ := clusterOf(b, n, setCount)
		versions := make([]string, 0, 1<<16) // what a decoder makes is no cost of the index
		next := func() string {
			if len(versions) == 0 {
				for range cap(versions) {
					versions = append(versions, f.next())
				}
			}
			rv := versions[0]
			versions = versions[1:]
			if len(versions) == 0 {
				versions = make([]string, 0, 1<<16)
			}
			return rv
		}
		run := func(name string, event func(rv string)) {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					event(next())
				}
			})
		}
		p, q, node := podNumber(7, n/2), podNumber(8, n/2), nodeNumber(n/3, "")
		run("pod-ready", func(rv string) {
			p.RV, p.Ready = rv, !p.Ready
			f.x.PutPod(p)
		})
		// Each pod of every set in turn, far from the one before: with 100,000 nodes more than any cache of the processor holds.
		const most, stride = 200_000, 7919
		pods, last := make([]Pod, min(most, setCount*n)), 0
		many := len(pods)
		for i := range pods {
			pods[i] = podNumber(i%setCount, i/setCount*stride%n)
		}
		run("any-pod-ready", func(rv string) {
			one := &pods[last%many]
			last++
			one.RV, one.Ready = rv, !one.Ready
			f.x.PutPod(*one)
		})
		run("pod-nothing-new", func(rv string) {
			q.RV = rv
			f.x.PutPod(q)
		})
		run("pod-goes-and-comes", func(rv string) {
			f.x.DeletePod(q.UID, "")
			q.RV = rv
			f.x.PutPod(q)
		})
		run("node-heartbeat", func(rv string) {
			node.RV = rv
			f.x.PutNode(node)
		})
		runtime.KeepAlive(f)
	}
}

// BenchmarkPlacement is what a node costs whose taints have changed, and a set whose template has, where sets have affinity and tolerations.
func BenchmarkPlacement(b *testing.B) {
	spec := map[string]any{
		"nodeSelector": map[string]any{corev1.LabelOSStable: "linux"},
		"tolerations":  []any{map[string]any{"key": "dedicated", "operator": "Equal", "value": "edge", "effect": "NoSchedule"}},
		"affinity": map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
			"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{
				map[string]any{"key": corev1.LabelTopologyZone, "operator": "In", "values": []any{"zone-0", "zone-1"}},
				map[string]any{"key": "pool", "operator": "NotIn", "values": []any{"pool-3"}},
			}}}},
		}},
	}
	for _, n := range sizes() {
		f := newFixture(b)
		for i := range n {
			f.x.PutNode(nodeNumber(i, f.next()))
		}
		var key Key
		for s := range setCount {
			name := fmt.Sprint("ds", s)
			key = Key{Dialect: "native", Namespace: "ns", Name: name}
			f.x.PutSet(key, f.workload(name, 1, spec))
		}
		b.Run(fmt.Sprint("node-tainted/", n), func(b *testing.B) {
			node := nodeNumber(n/2, "")
			b.ReportAllocs()
			for b.Loop() {
				node.RV = f.next()
				node.Taints = append(node.Taints[:0:0], corev1.Taint{Key: "dedicated", Value: strconv.Itoa(f.rv % 2), Effect: corev1.TaintEffectNoSchedule})
				f.x.PutNode(node)
			}
		})
		b.Run(fmt.Sprint("template-changed/", n), func(b *testing.B) {
			generation := int64(1)
			b.ReportAllocs()
			for b.Loop() {
				generation++
				f.x.PutSet(key, f.workload(key.Name, generation, spec))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
		})
	}
}
