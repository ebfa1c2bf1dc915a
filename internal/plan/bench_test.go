// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"

	"everynode.dev/everynode/internal/rollout"
)

// BenchmarkPlay is a roll of 5,000 nodes: somebody waits for it in front of a terminal.
func BenchmarkPlay(b *testing.B) {
	for _, limit := range []int{1, 50, 500} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			s := cluster(5000)
			s.Set.MaxUnavailable = rollout.Quantity{Value: limit}
			for b.Loop() {
				if _, err := Simulate(s, times()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
