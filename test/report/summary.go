// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Summary is a summary of many durations; without any it is zero.
type Summary struct {
	Count                 int
	Min, Median, P90, Max time.Duration
}

// Summarize summarizes durations in any order.
func Summarize(times []time.Duration) Summary {
	if len(times) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(times))
	return Summary{
		Count: len(sorted), Min: sorted[0], Median: quantile(sorted, 0.5), P90: quantile(sorted, 0.9), Max: sorted[len(sorted)-1],
	}
}

// quantile returns the smallest value that at least that share of all does not exceed (the nearest rank): of 10 values,
// the 5th is the median.
func quantile(sorted []time.Duration, share float64) time.Duration {
	rank := int(math.Ceil(share * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// Seconds formats a duration for a table: to a tenth of a second, without the unit, which is in the head.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }
