// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"sync"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// wallClock is the clock of a manager, which somebody may set. Like Go's own it measures durations by something that nobody can set: it
// remembers when it gave out each time.
type wallClock struct {
	*clocktesting.FakeClock
	mu    sync.Mutex
	skew  time.Duration
	given map[time.Time]time.Time
}

func newWallClock(now time.Time) *wallClock {
	return &wallClock{FakeClock: clocktesting.NewFakeClock(now), given: map[time.Time]time.Time{}}
}

// Now implements clock.Clock.
func (c *wallClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	steady := c.FakeClock.Now()
	wall := steady.Add(c.skew)
	c.given[wall] = steady
	return wall
}

// Since implements clock.Clock.
func (c *wallClock) Since(wall time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if steady, known := c.given[wall]; known {
		return c.FakeClock.Now().Sub(steady)
	}
	return c.FakeClock.Now().Add(c.skew).Sub(wall)
}

// jump sets the clock.
func (c *wallClock) jump(skew time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew = skew
}

// maxSkew is how wrong the clock of a manager may be, but for jumps.
const maxSkew = 10 * time.Second

// noteClocks takes notice of clocks that are wrong by more than maxSkew.
func (s *sim) noteClocks() {
	for _, m := range s.managers() {
		if m.clock.skew > maxSkew || m.clock.skew < -maxSkew {
			s.misled = s.w.now
		}
	}
}

func (s *sim) clockOps(ops []op) []op {
	set := func(what string, skew time.Duration) {
		if s.lead.clock.skew != skew {
			ops = append(ops, op{words("%s's clock is %s now", s.lead.name, what), s.storm(), func() {
				s.skew = max(s.skew, skew.Abs())
				s.lead.clock.jump(skew)
				s.lead.known.count()
			}})
		}
	}
	if s.cfg.with("jumps") {
		set("an hour slow", -time.Hour)
	}
	if s.cfg.with("clocks") {
		set("slow", -maxSkew)
	}
	set("right", 0)
	if s.cfg.with("clocks") {
		set("fast", maxSkew)
	}
	if s.cfg.with("jumps") {
		set("an hour fast", time.Hour)
	}
	return ops
}
