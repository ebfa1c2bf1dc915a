// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math"
	"testing"
	"time"
)

func TestQuantity(t *testing.T) {
	for _, c := range []struct {
		q           Quantity
		total, want int
	}{
		{Quantity{Value: 3}, 10, 3},
		{Quantity{Value: 3}, 0, 3},
		{Quantity{Value: -3}, 10, 0},
		{Quantity{Value: 10, Percent: true}, 0, 0},
		{Quantity{Value: 10, Percent: true}, 1, 1},
		{Quantity{Value: 10, Percent: true}, 10, 1},
		{Quantity{Value: 10, Percent: true}, 11, 2},
		{Quantity{Value: 100, Percent: true}, 7, 7},
		{Quantity{Value: 250, Percent: true}, 3, 8},
		{Quantity{Value: -10, Percent: true}, 100, 0},
		{Quantity{Value: 1, Percent: true}, 1_000_000, 10_000},
		{Quantity{Value: math.MaxInt}, 1, math.MaxInt32},
		{Quantity{Value: math.MaxInt, Percent: true}, 200, 2 * math.MaxInt32},
		{Quantity{Value: math.MinInt, Percent: true}, math.MaxInt32, 0},
	} {
		if got := c.q.Of(c.total); got != c.want {
			t.Errorf("%+v of %d is %d, want %d", c.q, c.total, got, c.want)
		}
	}
}

func TestQuantityRoundedDown(t *testing.T) {
	for _, c := range []struct {
		q           Quantity
		total, want int
	}{
		{Quantity{Value: 3}, 10, 3},
		{Quantity{Value: -3}, 10, 0},
		{Quantity{Value: 50, Percent: true}, 3, 1},
		{Quantity{Value: 99, Percent: true}, 1, 0},
		{Quantity{Value: 100, Percent: true}, 7, 7},
		{Quantity{Value: -10, Percent: true}, 100, 0},
		{Quantity{Value: math.MaxInt, Percent: true}, math.MaxInt32, math.MaxInt32 * math.MaxInt32 / 100},
	} {
		if got := c.q.Down(c.total); got != c.want {
			t.Errorf("%+v of %d is %d, want %d", c.q, c.total, got, c.want)
		}
	}
}

func TestTimeEndsAtItsEnds(t *testing.T) {
	for _, c := range []struct {
		t    Time
		d    time.Duration
		want Time
	}{
		{5, 3, 8},
		{5, -8, -3},
		{math.MaxInt64 - 1, 2, math.MaxInt64},
		{math.MinInt64 + 1, -2, math.MinInt64},
		{math.MaxInt64, math.MinInt64, -1},
	} {
		if got := c.t.Add(c.d); got != c.want {
			t.Errorf("%d + %d is %d, want %d", c.t, c.d, got, c.want)
		}
	}
	if got := Time(8).Sub(5); got != 3 {
		t.Errorf("8 - 5 is %d", got)
	}
}

// TestWakeAtZero: 0 means never, so a plan that wants to be continued at the moment 0 must not say 0.
func TestWakeAtZero(t *testing.T) {
	s := oneNode()
	s.Now, s.Set.Burst = 0, Quantity{Value: 1}
	s.Nodes = append(s.Nodes, Node{Name: "b", Fit: MustRun})
	if plan := Decide(s); plan.Wake != 1 {
		t.Errorf("wakes at %d, want 1", plan.Wake)
	}
}

// TestReadyForLongerThanTimeLasts: a pod whose time to be available lies beyond the end of time is never available.
func TestReadyForLongerThanTimeLasts(t *testing.T) {
	s := oneNode(readyPod("new", 1))
	s.Set.MinReady = math.MaxInt64
	s.Nodes[0].Pods[0].ReadySince = testNow
	if plan := Decide(s); plan.Verdicts[0].Kind != WaitAvailable || plan.Wake != math.MaxInt64 {
		t.Errorf("%s, wakes at %d", plan.Verdicts[0].Kind, plan.Wake)
	}
}
