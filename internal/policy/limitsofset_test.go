// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"everynode.dev/everynode/internal/rollout"
)

// TestLimitsOfTheSetNameTheRemedy: a pause, a partition and a selector of the set show the command or the field that ends them.
func TestLimitsOfTheSetNameTheRemedy(t *testing.T) {
	w := newWorld(t, "")
	w.s.Set.Paused, w.s.Set.Partition, w.s.Set.Selective = true, rollout.Quantity{Value: 3}, true
	w.pass(0)
	w.say("Paused", "no update starts: resume it with kubectl everynode resume daemonset/agent -n default.")
	w.say("Partition", "so a wave may not become complete: remove it with kubectl everynode partition daemonset/agent -n default 0.")
	w.say("Selector", "so a wave may not become complete: remove spec.updateStrategy.rollingUpdate.selector.")
}
