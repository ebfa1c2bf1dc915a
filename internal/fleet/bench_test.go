// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strconv"
	"testing"

	"everynode.dev/everynode/internal/rollout"
)

func BenchmarkSnapshotAndDecide(b *testing.B) {
	for _, n := range []int{1000, 10000, 100000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			f := newFixture(b)
			key := f.set("ds")
			for i := range n {
				f.node(fmt.Sprintf("node-%06d", i))
				p := pod(fmt.Sprintf("pod-%06d", i), fmt.Sprintf("node-%06d", i), "ds")
				p.Phase, p.Ready, p.ReadySince = rollout.Running, true, 1
				f.put(p)
			}
			f.snapshot(key)
			b.ReportAllocs()
			for b.Loop() {
				rollout.Decide(f.snapshot(key))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
		})
	}
}

func BenchmarkPodEvent(b *testing.B) {
	for _, n := range []int{1000, 100000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			f := newFixture(b)
			for i := range 20 {
				f.set(fmt.Sprint("ds", i))
			}
			for i := range n {
				f.node(fmt.Sprintf("node-%06d", i))
			}
			p := pod("p", "node-000500", "ds7")
			b.ReportAllocs()
			for b.Loop() {
				p.Ready = !p.Ready
				f.put(p)
			}
		})
	}
}
