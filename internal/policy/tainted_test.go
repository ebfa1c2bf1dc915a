// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestANodeThatIsTaintedBecauseItWentDown: Kubernetes taints a node that is not ready, so that most sets need no pod there any more. The node stays in its wave all the same, because the
// revision may be the reason.
func TestANodeThatIsTaintedBecauseItWentDown(t *testing.T) {
	goesDown := func(t *testing.T, spec string) *world {
		t.Helper()
		w := newWorld(t, spec)
		w.pass(0)
		w.want("ab", v1alpha1.PhaseRolling, "canary")
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseSoaking, "canary")
		w.pass(time.Second)
		a := w.node("a")
		a.Ready, a.Since, a.Fit = false, w.s.Now, rollout.MayStay
		a.Pods[0].Ready, a.Pods[0].ReadySince = false, w.s.Now
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseRolling, "canary")
		if c := w.last.Waves[0]; c.Nodes != 2 || c.Available != 1 || c.SoakRestarts != 1 || c.SoakRestartedBy != "a" {
			t.Errorf("%+v", c)
		}
		return w
	}
	t.Run("and comes back", func(t *testing.T) {
		w := goesDown(t, "waves: [{name: canary, nodes: {count: 2}, soak: 1m}]\nunreachableAfter: 10m")
		w.pass(5 * time.Minute)
		w.want("", v1alpha1.PhaseRolling, "canary")
		a := w.node("a")
		a.Ready, a.Since, a.Fit = true, w.s.Now, rollout.MustRun
		w.put("a", 1, true)
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseSoaking, "canary")
		w.pass(time.Minute)
		w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
	})
	t.Run("and is left out", func(t *testing.T) {
		w := goesDown(t, "waves: [{name: canary, nodes: {count: 2}, soak: 1m}]\nunreachableAfter: 10m")
		w.pass(10 * time.Minute)
		w.want("", v1alpha1.PhaseSoaking, "canary")
		w.pass(time.Minute)
		w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
	})
	t.Run("and fails the revision", func(t *testing.T) {
		w := goesDown(t, "waves: [{name: canary, nodes: {count: 2}, soak: 1m}]\nfailure: {nodeDeadline: 1m, action: Pause}")
		w.pass(2 * time.Minute)
		w.want("", v1alpha1.PhaseFailed, "canary")
	})
}
