// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestPercentWhileNodesJoin: nodes that join after a wave with a percentage was complete do not let it take another node, which would need an update without an approval.
// An edit of the percentage does.
func TestPercentWhileNodesJoin(t *testing.T) {
	for _, more := range []string{"", "selector: {matchLabels: {pool: a}}, "} {
		spec := "waves: [{name: half, nodes: {" + more + "percent: 50}, soak: 8m, after: [{type: Approval}]}]"
		w := newWorld(t, spec)
		for name := range strings.SplitSeq("abcdefghijklm", "") {
			w.labels[name] = map[string]string{"pool": "a"}
		}
		w.pass(0)
		w.want("abcde", v1alpha1.PhaseRolling, "half")
		w.pass(time.Second)
		w.join("k", w.s.Now, 0)
		w.pass(8 * time.Minute)
		w.want("", v1alpha1.PhaseWaitingForApproval, "half")
		w.join("l", w.s.Now, 0)
		w.join("m", w.s.Now, 0)
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseWaitingForApproval, "half")
		w.lead()
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseWaitingForApproval, "half")
		w.policies = []*policy.Policy{read(t, strings.Replace(spec, "50", "60", 1))}
		w.pass(time.Second)
		w.want("f", v1alpha1.PhaseRolling, "half")
	}
}
