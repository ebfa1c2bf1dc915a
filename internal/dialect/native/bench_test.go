// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/revision"
)

// BenchmarkLargeSet is what the largest set costs that an API server takes, of 1 MiB in 4,000 environment variables: to read it from an event, to hash its
// template and to compare that with a revision. kept/bytes is the memory that the manager keeps of it, in bytes of the object.
func BenchmarkLargeSet(b *testing.B) {
	var env strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&env, "\n      - {name: VARIABLE_%04d, value: %s}", i, strings.Repeat("x", 220))
	}
	object := decode(b, `
metadata: {namespace: agents, name: agent, uid: u1, generation: 4}
spec:
  selector: {matchLabels: {app: agent}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers:
      - name: agent
        image: agent:1
        env:`+strings.ReplaceAll(env.String(), "\n      -", "\n        -"))
	b.Run("digest", func(b *testing.B) {
		for b.Loop() {
			native.Digest(object)
		}
		const copies = 20
		kept := make([]dialect.Workload, copies)
		before := inUse()
		for i := range kept {
			kept[i] = native.Digest(apiruntime.DeepCopyJSON(object))
		}
		b.ReportMetric(float64(inUse()-before)/copies/(1<<20), "MiB-kept")
		runtime.KeepAlive(kept)
	})
	w := native.Digest(object)
	b.Run("hash", func(b *testing.B) {
		for b.Loop() {
			if _, err := revision.Hash(w.Template, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	data, err := revision.Data(w.Template)
	if err != nil {
		b.Fatal(err)
	}
	recorded, err := revision.Decode(data)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("compare", func(b *testing.B) {
		for b.Loop() {
			if !revision.Same(recorded, w.Template) {
				b.Fatal("the templates differ")
			}
		}
	})
}

// inUse is how much memory is in use, in bytes.
func inUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
