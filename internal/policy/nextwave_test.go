// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// If all nodes of the next wave have the new revision already, the nodes of the wave after it have the reason why the rollout waits: a soak or an approval is no lack of progress.
func TestTheNextWaveIsUpdatedAlready(t *testing.T) {
	w := newWorld(t, `
waves:
- {name: canary, nodes: {count: 1}, soak: 10s, after: [{type: Approval}]}
- {name: second, nodes: {count: 2}, soak: 5s}
`)
	for _, name := range []string{"b", "c", "d"} {
		w.put(name, 1, true)
	}
	w.pass(0)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if got := w.verdicts(); !strings.Contains(got, "a:wait-soak b:up-to-date c:up-to-date d:up-to-date e:wait-soak") || strings.Contains(got, "wait-wave") {
		t.Error(got)
	}
	w.pass(10 * time.Second)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	if got := w.verdicts(); !strings.Contains(got, "a:wait-approval b:up-to-date c:up-to-date d:up-to-date e:wait-approval") {
		t.Error(got)
	}
}
