// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
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
