// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Summary is what a table says of many times. That of none is zero.
type Summary struct {
	Count                 int
	Min, Median, P90, Max time.Duration
}

// Summarize sums times up, in whatever order they are.
func Summarize(times []time.Duration) Summary {
	if len(times) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(times))
	return Summary{
		Count: len(sorted), Min: sorted[0], Median: quantile(sorted, 0.5), P90: quantile(sorted, 0.9), Max: sorted[len(sorted)-1],
	}
}

// quantile is the least time that at least that share of all does not exceed (the nearest rank): of 10 times the 5th is the median.
func quantile(sorted []time.Duration, share float64) time.Duration {
	rank := int(math.Ceil(share * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// Seconds is a time as a table shows it: to a tenth of a second, without the unit, which stands in the head.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }
