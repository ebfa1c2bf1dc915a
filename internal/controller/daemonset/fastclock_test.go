// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A clock of the manager that is fast by more than ten minutes makes no set old: what was made a moment ago finds the pods that are there. The status of a new
// Advanced DaemonSet is empty where the definition is of an earlier version, and has the default of the definition otherwise.
func TestANewSetSeesThePodsThatAreThereByAFastClock(t *testing.T) {
	for _, observed := range []int64{0, -1} {
		a := newAdvanced(t, 3, standard)
		a.index.DeleteSet(a.key)
		a.orphan(3)
		a.set.SetUID("another")
		if err := unstructured.SetNestedField(a.set.Object, observed, "status", "observedGeneration"); err != nil {
			t.Fatal(err)
		}
		a.set.SetCreationTimestamp(metav1.NewTime(a.clock.Now())) // by the clock of the API server
		a.clock.Step(11 * time.Minute)                            // by how much that of the manager is ahead
		a.set.SetResourceVersion(a.next())
		a.seeSet()
		a.mustPass()
		if created := a.wrote("create"); len(created) > 0 {
			t.Errorf("observed generation %d: created %v next to running pods", observed, created)
		}
	}
}
