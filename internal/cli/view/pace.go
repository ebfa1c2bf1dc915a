// SPDX-License-Identifier: Apache-2.0

package view

import (
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// Pace is the speed of an update, if it can be estimated.
type Pace struct {
	// Known reports whether PerSecond and Left are valid.
	Known bool
	// PerSecond is the number of nodes updated per second, Left is the remaining time at that speed.
	PerSecond float64
	Left      time.Duration
	// Stalled is how long there has been no progress, if that is long for this update; otherwise 0.
	Stalled time.Duration
	// Note is what Left includes in addition to the updates, and what it does not; empty if there is neither.
	Note string
	UpTo
}

// UpTo names who must act before an update continues, if all remaining nodes wait for that. The past speed predicts
// nothing then, so there is neither an estimate nor a stall. At most one field is true.
type UpTo struct {
	// Owners is true if the owners of the nodes must act, Paused if the set is paused, OnDelete if users must delete
	// the old pods, and Policy if a rollout policy holds the nodes.
	Owners, Paused, OnDelete, Policy bool
}

// Sample is one observation of an update.
type Sample struct {
	At rollout.Time
	// Target is the revision that nodes are updated to. A new target restarts the estimate.
	Target string
	// Updated is how many nodes have been updated, of the Total that the update can reach.
	Updated, Total int
	// Untried reports whether no updated node is available yet. Then the duration of a batch is unknown, and also
	// whether there is a next one.
	Untried bool
	UpTo
}

// Estimator computes a Pace from samples. The zero value is ready to use.
type Estimator struct {
	target string
	// steps are the samples at which Updated changed, oldest first. The speed is measured from the first one. The others
	// are not older than window, unless there would be too few of them.
	steps []Sample
}

const (
	// window is the part of the past from which the speed is computed.
	window = time.Minute
	// An update proceeds in batches of the size of the budget. A speed is shown only after a few seconds with more than
	// one batch; otherwise it would be far too high.
	enoughTime  = 3 * time.Second
	enoughSteps = 3
	// minStallTime is the minimum time without progress that is shown as a stall.
	minStallTime = 10 * time.Second
)

// Observe adds a sample and returns the pace at that moment.
func (e *Estimator) Observe(s Sample) Pace {
	if s.Target != e.target {
		e.target, e.steps = s.Target, nil
	}
	if s.Policy {
		e.steps = nil // the time of a soak is no lack of progress, also when the next wave begins
	}
	if n := len(e.steps); n == 0 || e.steps[n-1].Updated != s.Updated {
		e.steps = append(e.steps, s)
	}
	for len(e.steps) > enoughSteps && s.At.Sub(e.steps[1].At) > window {
		e.steps = e.steps[1:]
	}
	return e.pace(s)
}

func (e *Estimator) pace(now Sample) Pace {
	left := now.Total - now.Updated
	if left <= 0 {
		return Pace{}
	}
	if now.UpTo != (UpTo{}) {
		return Pace{UpTo: now.UpTo}
	}
	last := e.steps[len(e.steps)-1]
	pace := Pace{}
	if quiet := now.At.Sub(last.At); quiet >= e.stallTime() {
		pace.Stalled = quiet
		return pace
	}
	steps := e.sincePause(now)
	if len(steps) < enoughSteps || now.Untried {
		return pace
	}
	elapsed, moved := now.At.Sub(steps[0].At), now.Updated-steps[0].Updated
	if elapsed < enoughTime || moved <= 0 {
		return pace
	}
	pace.Known = true
	pace.PerSecond = float64(moved) / elapsed.Seconds()
	pace.Left = time.Duration(float64(left) / pace.PerSecond * float64(time.Second))
	return pace
}

// sincePause returns the steps since a pause of the update, for example after a canary: an interval between two steps
// that is far longer than all others. But an update may also proceed in batches, in which each batch starts when the
// pods of the last one are available. So as long as the next batch may still follow, the result is empty: after an
// interval of 20 s, for 20 s.
func (e *Estimator) sincePause(now Sample) []Sample {
	var longest, second time.Duration
	begins := 0
	for i := 1; i < len(e.steps); i++ {
		switch spell := e.steps[i].At.Sub(e.steps[i-1].At); {
		case spell > longest:
			longest, second, begins = spell, longest, i
		default:
			second = max(second, spell)
		}
	}
	switch {
	case longest < minStallTime || longest <= 3*second || len(e.steps) < enoughSteps:
		return e.steps
	case now.At.Sub(e.steps[begins].At) < min(longest, window):
		return nil
	default:
		return e.steps[begins:]
	}
}

// stallTime is the time without progress after which a stall is shown: three times the usual time between two steps. A
// set whose pods need a minute to become available is not stalled after ten seconds.
func (e *Estimator) stallTime() time.Duration {
	n := len(e.steps)
	if n < 2 {
		return minStallTime
	}
	usual := e.steps[n-1].At.Sub(e.steps[0].At) / time.Duration(n-1)
	return max(minStallTime, 3*usual)
}
