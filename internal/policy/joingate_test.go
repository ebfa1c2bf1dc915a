// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestANodeThatJoinsWithAClosedGate: the first pod of a node that joins before its wave begins has the committed revision. The readiness gate for changes in place is closed until the pod has
// started, as on a pod that was taken out of use. No pod of the set has ever been available on that node, so that the new one does not work there either says nothing about the revision.
func TestANodeThatJoinsWithAClosedGate(t *testing.T) {
	for name, deleted := range map[string]bool{"with a surge": false, "deleted first": true} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, judgedTwice)
			w.joins("k")
			w.pass(time.Second)
			w.want("k", v1alpha1.PhaseSoaking, "canary")
			k := w.node("k")
			k.Pods[0].Ready, k.Pods[0].InPlace = false, rollout.InPlaceArrived
			w.pass(time.Second)
			w.pass(61 * time.Second)
			first := k.Pods[0]
			if first.Deleting = true; deleted {
				k.Pods = []rollout.Pod{first}
				w.pass(time.Second)
			}
			w.put("k", 1, false)
			if !deleted {
				first.Deleting, k.Pods = false, append(k.Pods, first)
			}
			w.pass(time.Second)
			w.fails("k", pulls)
			w.pass(time.Second)
			w.wantNoFailure()
			w.wantBrokenBefore("k")
		})
	}
}
