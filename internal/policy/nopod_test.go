// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"
)

// TestANodeWithoutPodNamesNoOtherController where Everynode creates the pods.
func TestANodeWithoutPodNamesNoOtherController(t *testing.T) {
	w := canary(t, judged)
	w.fails("a", hangs)
	for range 6 {
		w.pass(time.Minute)
	}
	w.node("a").Pods, w.node("a").Last = nil, 1 // deleted, and made again in a moment
	w.pass(time.Second)
	if failed := w.last.Waves[0].FailedNodes; len(failed) != 1 || failed[0].Message != "The node has had no pod for 5m0s: see the events of the daemon set." {
		t.Errorf("%+v", failed)
	}
}
