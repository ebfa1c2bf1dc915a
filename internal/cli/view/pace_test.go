// SPDX-License-Identifier: Apache-2.0

package view

import (
	"math"
	"testing"
	"time"
)

// feed gives the estimator one sample per second, taking the number of updated nodes from the list, and returns the last.
func feed(e *Estimator, target string, from, total int, updated ...int) Pace {
	var pace Pace
	for i, n := range updated {
		at := start.Add(time.Duration(from+i) * time.Second)
		pace = e.Observe(Sample{At: at, Target: target, Updated: n, Total: total})
	}
	return pace
}

func TestPaceOfASteadyRoll(t *testing.T) {
	var e Estimator
	pace := feed(&e, "v2", 0, 30, 0, 2, 4, 6, 8, 10)
	if !pace.Known || pace.PerSecond != 2 || pace.Left != 10*time.Second {
		t.Errorf("10 of 30 nodes in 5 s: %+v", pace)
	}
}

func TestPaceIsNotDerivedFromOneBurst(t *testing.T) {
	var e Estimator
	if pace := feed(&e, "v2", 0, 30, 0, 6); pace.Known {
		t.Errorf("told after one burst: %+v", pace)
	}
	if pace := feed(&e, "v2", 2, 30, 6, 6); pace.Known {
		t.Errorf("told after one burst and a while: %+v", pace)
	}
	if pace := feed(&e, "v2", 4, 30, 12); !pace.Known || pace.PerSecond != 3 {
		t.Errorf("after two bursts in 4 s: %+v", pace)
	}
}

func TestPaceStartsAfreshForAnotherTarget(t *testing.T) {
	var e Estimator
	feed(&e, "v2", 0, 30, 0, 10, 20, 30)
	if pace := feed(&e, "v3", 4, 30, 0); pace.Known {
		t.Errorf("the speed of the last roll was taken over: %+v", pace)
	}
}

func TestPaceForgetsTheDistantPast(t *testing.T) {
	var e Estimator
	for second := range 200 {
		updated := second // one a second, then three a second
		if second > 100 {
			updated = 100 + 3*(second-100)
		}
		pace := e.Observe(Sample{At: start.Add(time.Duration(second) * time.Second), Target: "v2", Updated: updated, Total: 1000})
		if second == 199 && (pace.PerSecond < 2.99 || pace.PerSecond > 3.01) {
			t.Errorf("a minute later the speed is still %.2f", pace.PerSecond)
		}
	}
	if len(e.steps) > 70 {
		t.Errorf("%d samples are kept", len(e.steps))
	}
}

func TestPaceTellsAStall(t *testing.T) {
	var e Estimator
	feed(&e, "v2", 0, 30, 0, 2, 4)
	pace := feed(&e, "v2", 3, 30, 4, 4, 4, 4, 4, 4, 4, 4, 4)
	if pace.Stalled != 0 {
		t.Errorf("stalled after 9 s: %+v", pace)
	}
	pace = feed(&e, "v2", 12, 30, 4)
	if pace.Stalled != 10*time.Second || pace.Known {
		t.Errorf("after 10 s without a change: %+v", pace)
	}
	if pace = feed(&e, "v2", 13, 30, 5); pace.Stalled != 0 {
		t.Errorf("stalled although something moved: %+v", pace)
	}
}

// at gives the estimator a sample at each of these seconds, at which one node more is updated.
func at(e *Estimator, total int, seconds ...int) Pace {
	var pace Pace
	for i, second := range seconds {
		pace = e.Observe(Sample{At: start.Add(time.Duration(second) * time.Second), Target: "v2", Updated: i, Total: total})
	}
	return pace
}

// What went before an update stood still for a while says nothing about how long the rest takes.
func TestPaceAfterAPause(t *testing.T) {
	for name, c := range map[string]struct {
		seconds []int
		want    Pace
	}{
		"a canary of one node that stood for an hour":   {[]int{0, 3600, 3601, 3604}, Pace{}},
		"a canary of three nodes":                       {[]int{0, 1, 2, 3600, 3602, 3604}, Pace{}},
		"a short pause, and too little after it":        {[]int{0, 1, 2, 22, 23, 24, 25}, Pace{}},
		"a short pause, and as long again after it":     {[]int{0, 1, 2, 22, 27, 32, 37, 42}, Pace{Known: true, PerSecond: 0.2, Left: 465 * time.Second}},
		"a long pause, a minute ago":                    {[]int{0, 1, 3600, 3615, 3630, 3645, 3660}, Pace{Known: true, PerSecond: 1. / 15, Left: 94 * 15 * time.Second}},
		"bursts, each when the one before is available": {[]int{0, 1, 2, 60, 61, 62, 120}, Pace{Known: true, PerSecond: 4. / 118, Left: 2773 * time.Second}},
	} {
		var e Estimator
		got := at(&e, 100, c.seconds...)
		got.PerSecond, got.Left = math.Round(got.PerSecond*1000)/1000, got.Left.Round(time.Second)
		c.want.PerSecond = math.Round(c.want.PerSecond*1000) / 1000
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestPaceOfASlowRollIsNotAStall(t *testing.T) {
	var e Estimator
	for minute := range 5 {
		e.Observe(Sample{At: start.Add(time.Duration(minute) * time.Minute), Target: "v2", Updated: minute, Total: 30})
	}
	pace := e.Observe(Sample{At: start.Add(4*time.Minute + 50*time.Second), Target: "v2", Updated: 4, Total: 30})
	if pace.Stalled != 0 || !pace.Known {
		t.Errorf("one node a minute is not a stall after 50 s: %+v", pace)
	}
}

func TestPaceOfAFinishedRoll(t *testing.T) {
	var e Estimator
	if pace := feed(&e, "v2", 0, 3, 0, 1, 2, 3, 3); pace != (Pace{}) {
		t.Errorf("finished: %+v", pace)
	}
}

// An update of one node in half a minute is slow, and does not stand still.
func TestSpeedOfSlowUpdates(t *testing.T) {
	for perSecond, want := range map[float64]string{
		12: "12.0 nodes/s", 0.1: "0.1 nodes/s", 0.05: "3.0 nodes/min", 1. / 600: "0.1 nodes/min", 1. / 1200: "3.0 nodes/h",
	} {
		if got := (Model{Pace: Pace{Known: true, PerSecond: perSecond, Left: time.Minute}}).forecast(); got != "about 1m00s left at "+want {
			t.Errorf("%v in a second: %q, want %q", perSecond, got, want)
		}
	}
}

// The time in which a policy holds all nodes is no lack of progress, neither then nor when the next wave begins.
func TestPaceAfterASoak(t *testing.T) {
	e := Estimator{}
	for i, held := range []bool{false, true, true, false} {
		at := start.Add(time.Duration(i) * time.Minute)
		if got := e.Observe(Sample{At: at, Target: "b", Updated: 2, Total: 6, UpTo: UpTo{Policy: held}}); got.Stalled != 0 && i != 3 || i == 3 && got.Stalled > time.Minute {
			t.Errorf("after %d minutes: %+v", i, got)
		}
	}
}
