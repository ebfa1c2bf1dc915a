// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// idle lets nothing be decided about the set for a minute, as while a tenant has made its specification invalid, and then another manager take over.
func (w *world) idle() {
	w.last = policy.Idle(policy.Set{Namespace: "default", Name: "agent"}, w.last, policy.NotServed("its specification is not valid", ""))
	w.s.Now = w.s.Now.Add(time.Minute)
	w.lead()
}

// TestNodesThatAreGoneBeforeASetIsIdle: the status keeps the nodes on which the update has begun, so that another manager gives their places to no other node.
func TestNodesThatAreGoneBeforeASetIsIdle(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 10m}]")
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.vanish("a")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseStalled, "canary")
	w.idle()
	w.pass(0)
	w.want("", v1alpha1.PhaseStalled, "canary")
}

// TestProgressBeforeASetIsIdle: the status keeps the waves that have passed, and when the rollout and the last update began.
func TestProgressBeforeASetIsIdle(t *testing.T) {
	w := newWorld(t, "pace: {minTimeBetween: 10m, maxUpgrading: 1}\nwaves: [{name: canary, nodes: {count: 1}}, {name: some, nodes: {count: 2}}]")
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.last.LastStart = policy.Moment(w.s.Now)
	w.pass(11 * time.Minute)
	w.want("b", v1alpha1.PhaseRolling, "some")
	w.last.LastStart = policy.Moment(w.s.Now.Add(30 * time.Second)) // later than the pods show
	before := w.last
	w.idle()
	w.pass(0)
	w.want("", v1alpha1.PhaseRolling, "some")
	if got := w.last; !got.Waves[0].CompletedAt.Equal(before.Waves[0].CompletedAt) || !got.StartedAt.Equal(before.StartedAt) || !got.LastStart.Equal(before.LastStart) {
		t.Errorf("%+v, before %+v", got, before)
	}
}

// TestProgressWhileThePolicyControlsNothing: a set that has the strategy OnDelete for a moment, or that OpenYurt's manager updates for a moment, keeps the progress of its waves, as one does whose specification is invalid.
func TestProgressWhileThePolicyControlsNothing(t *testing.T) {
	w := newWorld(t, "pace: {minTimeBetween: 1s}\nwaves: [{name: canary, nodes: {count: 2}, soak: 1h}, {name: rest, nodes: {percent: 100}, soak: 1h}]")
	w.s.Set.MaxUnavailable.Value = 1
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(2 * time.Second)
	w.want("b", v1alpha1.PhaseRolling, "canary")
	w.pass(2 * time.Second)
	w.pass(time.Hour)
	w.want("c", v1alpha1.PhaseRolling, "rest")
	started := policy.Moment(w.s.Now)
	w.last.LastStart = started // as the manager does
	w.s.Set.Strategy = rollout.OnDelete
	w.pass(time.Second)
	if got := w.last.LastStart; !got.Equal(started) {
		t.Errorf("the last start was at %s, and now at %s", started, got)
	}
	w.s.Set.Strategy = rollout.RollingUpdate
	w.pass(time.Second)
	if got := w.roll(); got != "d" || w.out.Status.Wave != "rest" {
		t.Errorf("%q starts in the wave %s: %+v", got, w.out.Status.Wave, w.out.Status.Waves)
	}
}

// TestPlacesWhileThePolicyControlsNothing: and no other node takes the place of one that is gone, also under another manager.
func TestPlacesWhileThePolicyControlsNothing(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 1h}]")
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.pass(0)
	w.vanish("a")
	w.pass(0)
	w.s.Set.Strategy = rollout.OnDelete
	w.pass(time.Second)
	w.lead()
	w.s.Set.Strategy = rollout.RollingUpdate
	w.pass(time.Second)
	if got := w.roll(); got != "" {
		t.Errorf("%q takes the place of a", got)
	}
}
