// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestReasonOfAWaveThatAnotherZoneHolds: a pod that cannot be created, or one of a wave that has passed and is not available any more, holds the other zones. The status says so, and only while the wave
// does nothing else.
func TestReasonOfAWaveThatAnotherZoneHolds(t *testing.T) {
	w := inZones(t, "")
	w.pass(0)
	lost := w.node("g")
	lost.Pods, lost.Last, lost.Blocked = nil, 0, "the quota is used up"
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseRolling, "remaining")
	if !blockedBy(w, "Order") || !strings.Contains(w.last.Blocking[0].Message, "1 node has no available pod of the revision that it is to have: g (the quota is used up).") {
		t.Errorf("blocking %+v", w.last.Blocking)
	}
	w.node("g").Blocked = ""
	w.pass(time.Minute)
	w.want("g", v1alpha1.PhaseRolling, "remaining")
	w.pass(time.Minute)
	if blockedBy(w, "Order") {
		t.Errorf("blocking %+v", w.last.Blocking)
	}
	w.want("ab", v1alpha1.PhaseRolling, "remaining")
	w.node("a").Pods[0].Ready = false
	w.pass(time.Minute)
	if w.want("", v1alpha1.PhaseRolling, "remaining"); blockedBy(w, "Order") {
		t.Errorf("while a is at work: blocking %+v", w.last.Blocking)
	}
}

// TestReasonOfAWaveThatAPassedWaveHolds: as above.
func TestReasonOfAWaveThatAPassedWaveHolds(t *testing.T) {
	w := inZones(t, "waves: [{name: canary, nodes: {selector: {matchLabels: {zone: '3'}}}}, {name: rest, nodes: {percent: 100}}]\n")
	w.pass(0)
	w.want("ef", v1alpha1.PhaseRolling, "canary")
	w.s.Set.Paused = true
	w.pass(time.Minute)
	w.s.Set.Paused = false
	w.node("e").Pods[0].Ready = false
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseRolling, "rest")
	if !blockedBy(w, "Order") || !strings.HasPrefix(w.last.Blocking[0].Message, "No update starts in the wave rest") {
		t.Errorf("blocking %+v", w.last.Blocking)
	}
}
