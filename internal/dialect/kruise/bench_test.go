// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"testing"

	"everynode.dev/everynode/internal/dialect/kruise"
)

// BenchmarkFacts is what one version of a pod costs that was changed in place earlier, as every pod of a set is after its first roll.
func BenchmarkFacts(b *testing.B) {
	t := &testing.T{}
	p := pod(gateless)
	p = remake(apply(t, p, kruise.Edits{}.Patch(p, images(t, "a:1", "a:2", "new"), after(1))), "c-2")
	b.ReportAllocs()
	for b.Loop() {
		kruise.Facts(p)
	}
}
