// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// TestBrokenNodesWhileNothingIsDecided: a node that was broken before its update stays one while the policy decides nothing for a moment.
func TestBrokenNodesWhileNothingIsDecided(t *testing.T) {
	for name, c := range map[string]struct{ stop, goOn func(w *world) }{
		"two policies": {
			func(w *world) { w.policies = append(w.policies, w.policies[0]) },
			func(w *world) { w.policies = w.policies[:1] },
		},
		"a policy that is not valid": {
			func(w *world) {
				w.policies = []*policy.Policy{read(w.t, judgedStrictly()+"windows: [{schedule: \"x\", duration: 1h}]\n")}
			},
			func(w *world) { w.policies = []*policy.Policy{read(w.t, judgedStrictly())} },
		},
		"a set that users update": {
			func(w *world) { w.s.Set.Strategy = rollout.OnDelete },
			func(w *world) { w.s.Set.Strategy = rollout.RollingUpdate },
		},
		"a set that is not served": {
			func(w *world) {
				w.last, w.restored = policy.Idle(policy.Set{Name: "agent"}, w.last, policy.NotServed("another controller keeps its pods", "")), true
			},
			func(*world) {},
		},
		"a rejection that is deleted": {
			func(w *world) { w.approve("no", "", "v2", v1alpha1.Reject) },
			func(w *world) { w.approvals = nil },
		},
		"policies that are not read": {
			func(w *world) { w.unread = true },
			func(w *world) { w.unread = false },
		},
	} {
		for lead, restored := range map[string]bool{"": false, " and another manager": true} {
			t.Run(name+lead, func(t *testing.T) {
				w := newWorld(t, judgedStrictly())
				w.fails("a", hangs)
				for range 3 {
					w.pass(time.Second)
					w.roll()
					w.fails("a", hangs)
				}
				w.wantBrokenBefore("a")
				last := w.last
				c.stop(w)
				if !w.restored {
					w.pass(time.Second)
				}
				if w.last == nil { // nothing is written then
					w.last = last
				}
				if w.last.Phase != v1alpha1.PhaseStalled && w.last.Phase != v1alpha1.PhaseRejected && !w.unread {
					t.Fatalf("phase %s", w.last.Phase)
				}
				c.goOn(w)
				w.restored = w.restored || restored
				w.pass(time.Hour)
				w.pass(time.Second)
				w.pass(5 * time.Minute)
				if w.last.Failure != nil {
					t.Errorf("failure %+v", w.last.Failure)
				}
			})
		}
	}
}

// TestTheTimeInWhichNothingIsDecided: it does not count for nodeDeadline; what was before and comes after does.
func TestTheTimeInWhichNothingIsDecided(t *testing.T) {
	w := canary(t, judgedStrictly())
	w.fails("a", hangs)
	w.pass(time.Second)
	w.pass(2 * time.Minute)
	w.policies = append(w.policies, w.policies[0])
	w.pass(time.Second)
	w.policies = w.policies[:1]
	w.pass(time.Hour)
	w.pass(2 * time.Minute)
	w.wantNoFailure()
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseFailed, "canary")
}
