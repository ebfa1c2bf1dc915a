// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// refusedSince is a world in which the pod of the node a is gone and cannot be created, before the rollout of v2 begins.
func refusedSince(t *testing.T, spec string, begin func(w *world)) *world {
	t.Helper()
	w := newWorld(t, spec)
	w.s.Set.Update = 0
	w.pass(time.Second)
	w.node("a").Pods, w.node("a").Last = nil, 0
	w.node("a").Refusal = &rollout.Refusal{Message: "exceeded quota", Denied: true}
	w.pass(time.Second)
	begin(w)
	w.s.Set.Update = 1
	return w
}

func (w *world) rollWithoutPod(name string, minutes int) {
	for range minutes {
		w.pass(time.Minute)
		w.roll()
		w.node(name).Pods, w.node(name).Last = nil, 0
	}
}

// The create on a node was refused before the rollout began, and still is: that the wave lacks its pod is not the fault of the revision.
func TestACreateRefusedBeforeTheRollout(t *testing.T) {
	minute := func(w *world) { w.pass(time.Minute) }
	for name, c := range map[string]struct {
		begin func(w *world)
		more  string
	}{
		"for long":              {begin: func(w *world) { w.pass(time.Hour) }},
		"for a minute":          {begin: minute},
		"for long, new manager": {begin: func(w *world) { w.pass(time.Hour); w.lead(); w.pass(time.Second) }},
		"one at a time":         {begin: minute, more: "pace: {maxUpgrading: 1}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := refusedSince(t, limitedWave+c.more, c.begin)
			w.rollWithoutPod("a", 90)
			if w.wantNoFailure(); w.have(1) != "bcdefghij" {
				t.Errorf("%q have the revision: %s %+v %+v", w.have(1), w.last.Phase, w.last.Waves, w.last.Blocking)
			}
		})
	}
}

// While the waves still wait for such a node, the time does not count for the deadline of the wave.
func TestACreateRefusedBeforeAShortDeadline(t *testing.T) {
	w := refusedSince(t, strings.Replace(limitedWave, "waveDeadline: 1h", "waveDeadline: 2m", 1), func(*world) {})
	w.rollWithoutPod("a", 4)
	w.wantNoFailure()
	w.wantBrokenBefore("a")
	w.node("a").Refusal = nil
	w.pass(time.Second)
	w.put("a", 1, true)
	w.pass(time.Second)
	w.wantBrokenBefore()
}

// A create that is refused later may be the fault of the revision.
func TestACreateRefusedDuringTheRollout(t *testing.T) {
	w := newWorld(t, limitedWave)
	w.s.Set.Paused = true
	w.pass(time.Second)
	w.node("a").Pods, w.node("a").Last = nil, 0
	w.node("a").Refusal = &rollout.Refusal{Message: "exceeded quota", Denied: true}
	w.s.Set.Paused = false
	w.rollWithoutPod("a", 90)
	if f := w.last.Failure; f == nil || !strings.Contains(f.Message, "after 1h0m0s, 2 of 3 nodes have an available pod") {
		t.Errorf("failure %+v", f)
	}
}
