// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestATenantCannotTakeThePlaceOfAPod: a tenant of another namespace, who knows the UID of a set, makes a pod on each node whose pod is being replaced. The
// set has all of its own pods in the end.
func TestATenantCannotTakeThePlaceOfAPod(t *testing.T) {
	w := newWorld(t, 3, nil)
	w.settle()
	made := 0
	w.before = func(verb, name string) error {
		if p := w.pods[name]; verb == "delete" && p != nil {
			made++
			evil := p.DeepCopy()
			evil.Namespace, evil.Name, evil.UID = "evil", fmt.Sprint("a", made), types.UID(fmt.Sprint("evil-", made))
			evil.ResourceVersion, evil.CreationTimestamp = w.next(), metav1.NewTime(w.clock.Now())
			evil.Labels["pod-template-generation"] = "2"
			evil.Status.Phase = corev1.PodRunning
			w.seePod(evil)
		}
		return nil
	}
	w.edit("img:v2")
	w.settle()
	if made != 3 || len(w.pods) != 3 || w.status("updatedNumberScheduled") != 3 || w.status("numberAvailable") != 3 {
		t.Errorf("the tenant has made %d pods; %d pods, updated %d, available %d, want 3 of each", made, len(w.pods), w.status("updatedNumberScheduled"), w.status("numberAvailable"))
	}
}
