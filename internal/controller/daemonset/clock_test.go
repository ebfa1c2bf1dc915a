// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// A clock that was set back is set right again, of which nothing tells: a pass that waits for pods by the wrong clock must not be an hour away.
func TestAClockThatWasSetBackPutsOffNoPassForLong(t *testing.T) {
	w := newWorld(t, 3, func(ds *appsv1.DaemonSet) { ds.Spec.MinReadySeconds = 10 })
	w.settle()
	w.clock.Step(time.Minute)
	w.mustPass()
	w.clock.SetTime(w.clock.Now().Add(-time.Hour))
	w.edit("img:v2")
	w.passDue()
	if due := w.passDue(); due == 0 || due > time.Minute {
		t.Errorf("the next pass is due in %s", due)
	}
}
