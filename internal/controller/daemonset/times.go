// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"time"

	"everynode.dev/everynode/internal/rollout"
)

func timeOf(t time.Time) rollout.Time { return rollout.Time(t.UnixNano()) }

// until is the time from now to t, at least a millisecond; 0 when t is never.
func until(now time.Time, t rollout.Time) time.Duration {
	if t == 0 {
		return 0
	}
	return min(max(t.Sub(timeOf(now)), time.Millisecond), longestWait)
}

// longestWait is the maximum time that a set waits for a point in time: a clock that was set back may be corrected earlier, and no event shows it.
const longestWait = time.Minute

// soonest is the smallest of the durations that are not 0.
func soonest(durations ...time.Duration) time.Duration {
	var first time.Duration
	for _, d := range durations {
		if d > 0 && (first == 0 || d < first) {
			first = d
		}
	}
	return first
}
