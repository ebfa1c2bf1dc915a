// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestAnAdoptionOfARevisionThatIsRefusedAsNotFound: a namespace that is not found, or a webhook, answers the adoption of a revision with 404. The revision is
// still there, and belongs to the set as soon as the adoption is admitted.
func TestAnAdoptionOfARevisionThatIsRefusedAsNotFound(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.settle()
	for _, r := range w.revisions {
		r.OwnerReferences = nil
		r.ResourceVersion = w.next()
	}
	w.deliver()
	w.index.RevisionsSeen(w.next())
	w.before = func(verb, _ string) error {
		if verb == "patch-revision" {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns")
		}
		return nil
	}
	if err := w.pass(); err == nil {
		t.Error("a refused adoption fails the pass, so that it is tried again")
	}
	w.before = nil
	w.watchOn()
	for name, r := range w.revisions {
		if metav1.GetControllerOf(r) == nil {
			t.Errorf("revision %s is not adopted", name)
		}
	}
}

// TestADeleteOfARevisionThatIsRefusedAsNotFound: a webhook answers the delete of an old revision with 404 or 409. The revision is still there, and a template
// that is changed back to it is its template again.
func TestADeleteOfARevisionThatIsRefusedAsNotFound(t *testing.T) {
	revisions := schema.GroupResource{Resource: "controllerrevisions"}
	for name, refusal := range map[string]error{
		"404": apierrors.NewNotFound(revisions, "x"), "409": apierrors.NewConflict(revisions, "x", nil),
	} {
		t.Run(name, func(t *testing.T) {
			limit := int32(0)
			w := newWorld(t, 1, func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = &limit })
			w.settle()
			w.before = func(verb, _ string) error {
				if verb == "delete-revision" {
					return refusal
				}
				return nil
			}
			w.edit("img:v2")
			w.watchOn()
			w.before = nil
			w.edit("img:v1")
			w.watchOn()
			if w.status("updatedNumberScheduled") != 1 || w.status("numberAvailable") != 1 {
				t.Errorf("updated %d, available %d, want 1 of each: %v", w.status("updatedNumberScheduled"), w.status("numberAvailable"), w.log)
			}
		})
	}
}

// watchOn makes passes, with watches that show every change and no new list.
func (w *world) watchOn() {
	w.t.Helper()
	for range 10 {
		w.index.RevisionsSeen(w.next())
		_ = w.pass()
		w.kubelets()
		w.clock.Step(time.Second)
	}
}
