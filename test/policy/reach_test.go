// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"testing"
	"time"

	"everynode.dev/everynode/test/harness"
)

// reachNodes are the nodes of TestReach, and reachBudget how many of them the set lets be unavailable: 10%.
const reachNodes, reachBudget = 100, 10

// tenth is a DaemonSet of apps/v1 that updates a tenth of its nodes at a time.
func tenth() dialect {
	d := native()
	d.fragment = "{type: RollingUpdate, rollingUpdate: {maxUnavailable: 10%}}"
	return d
}

// TestReach: how many nodes get a version that crashes. Without a policy it is the budget, with Kubernetes' own controller and with Everynode, and these nodes stay
// broken; with one it is the first wave, and its nodes return. docs/rollout-policy.md has the numbers.
func TestReach(t *testing.T) {
	cluster := shared.Cluster(t)
	upstream := cluster.Hands(t)[harness.Native]
	t.Run("upstream", func(t *testing.T) {
		cluster.Kill(t, harness.ManagerComponent)
		upstream.Start(t)
		defer func() {
			upstream.Kill(t)
			cluster.StartComponent(t, harness.ManagerComponent)
		}()
		newStage(t, tenth(), reachNodes).stopsAtTheBudget()
	})
	t.Run("everynode", func(t *testing.T) { newStage(t, tenth(), reachNodes).stopsAtTheBudget() })
	t.Run("policy", func(t *testing.T) {
		s := newStage(t, tenth(), reachNodes)
		s.govern(judges)
		s.failsWith(crashingImage, false)
	})
}

// stopsAtTheBudget updates to a version that crashes, and waits until no further node gets it.
func (s *stage) stopsAtTheBudget() {
	s.t.Helper()
	s.recorder, s.updated = s.Observe(set), time.Now()
	s.kubectl("", "set", "image", "daemonset/"+set, "daemon="+crashingImage)
	s.Wait("the budget is used up", runs(crashingImage, reachBudget))
	took := time.Since(s.updated)
	s.holds(10*time.Second, "no further node gets it, and these keep it", func(v harness.View) error {
		if n := len(s.touched(crashingImage)); n > reachBudget { // the recorder may be a moment behind
			return fmt.Errorf("%d nodes have had it", n)
		}
		return runs(crashingImage, reachBudget)(v)
	})
	s.t.Logf("%d of %d nodes had it after %s, and keep it", reachBudget, reachNodes, took.Round(100*time.Millisecond))
}
