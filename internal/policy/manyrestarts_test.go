// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestRestartsThatAreNotCountedAnyMore: a pod has been restarted more often than is counted when it is changed in place. Before the change, the sum began at 0 again, so all its restarts counted.
func TestRestartsThatAreNotCountedAnyMore(t *testing.T) {
	w := newWorld(t, "{waves: [{name: canary, nodes: {count: 1}, soak: 1h}], failure: {maxRestarts: 0, action: Undo}}")
	w.s.Set.InPlace = true
	w.pass(0)
	p := &w.node("a").Pods[0]
	p.Revision, p.Restarts, p.InPlace, p.Created = 1, 65535, rollout.InPlacePatched, noon.Add(-time.Hour)
	w.pass(time.Second)
	p.InPlace = rollout.InPlaceNone
	w.pass(time.Second)
	if w.last.Failure != nil || w.last.Phase != v1alpha1.PhaseSoaking {
		t.Errorf("%s, %+v", w.last.Phase, w.last.Failure)
	}
}
