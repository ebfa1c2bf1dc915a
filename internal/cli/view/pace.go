// SPDX-License-Identifier: Apache-2.0

package view

import (
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// Pace is how fast an update goes, as far as it can be told.
type Pace struct {
	// Known is whether PerSecond and Left mean anything.
	Known bool
	// PerSecond is the number of nodes updated per second, Left how long the rest takes at that speed.
	PerSecond float64
	Left      time.Duration
	// Stalled is how long nothing has moved, once that is long for this update; else 0.
	Stalled time.Duration
	UpTo
}

// UpTo is who has to say that an update goes on, where all that is left waits for that, which no pace of the past tells: then there is neither a
// pace nor a stall. One of them holds at most.
type UpTo struct {
	// Owners is whether the owners of the nodes say so, Paused whether the set is paused, OnDelete whether it is up to who deletes the old pods.
	Owners, Paused, OnDelete bool
}

// Sample is one observation of an update.
type Sample struct {
	At rollout.Time
	// Target is the revision that nodes are brought to. Another target starts the estimate afresh.
	Target string
	// Updated is how many nodes have been updated of the Total that the update may come to.
	Updated, Total int
	// Untried is whether none of the updated nodes is available yet: then nobody knows how long a burst takes, or whether there is a next one.
	Untried bool
	UpTo
}

// Estimator turns samples into a Pace. The zero value is ready for use.
type Estimator struct {
	target string
	// steps are the samples at which Updated changed, oldest first. The first is where the speed is measured from, the
	// others are no older than window, unless there would be too few to tell a speed.
	steps []Sample
}

const (
	// window is how much of the past counts for the speed.
	window = time.Minute
	// An update goes in bursts of as many nodes as the budget allows; a speed is only told after a few seconds that
	// have seen more than one burst, otherwise it would be far too high.
	enoughTime  = 3 * time.Second
	enoughSteps = 3
	// minStallTime is how long nothing has to move at least before that is called a stall.
	minStallTime = 10 * time.Second
)

// Observe takes one sample and returns the pace at that moment.
func (e *Estimator) Observe(s Sample) Pace {
	if s.Target != e.target {
		e.target, e.steps = s.Target, nil
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

// sincePause are the steps since somebody let the update stand, say after a canary: a spell between two steps that is by far longer than all others.
// The update may as well go in bursts, each as soon as the pods of the one before are available. So as long as the next burst may still be to come
// there are none: after a spell of 20 s, for 20 s.
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

// stallTime is how long nothing has to move before that is worth a word: three times the usual time between two steps.
// A set whose pods need a minute to become available is not stalled after ten seconds.
func (e *Estimator) stallTime() time.Duration {
	n := len(e.steps)
	if n < 2 {
		return minStallTime
	}
	usual := e.steps[n-1].At.Sub(e.steps[0].At) / time.Duration(n-1)
	return max(minStallTime, 3*usual)
}
