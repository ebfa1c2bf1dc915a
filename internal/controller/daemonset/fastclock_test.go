// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A clock of the manager that is fast by more than ten minutes makes no set old: what was made a moment ago finds the pods that are there.
func TestANewSetSeesThePodsThatAreThereByAFastClock(t *testing.T) {
	a := newAdvanced(t, 3, standard)
	a.index.DeleteSet(a.key)
	a.orphan(3)
	a.set.SetUID("another")
	a.set.SetCreationTimestamp(metav1.NewTime(a.clock.Now())) // by the clock of the API server
	a.clock.Step(11 * time.Minute)                            // by how much that of the manager is ahead
	a.set.SetResourceVersion(a.next())
	a.seeSet()
	a.mustPass()
	if created := a.wrote("create"); len(created) > 0 {
		t.Errorf("created %v beside pods that run", created)
	}
}
