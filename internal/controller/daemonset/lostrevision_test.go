// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A revision that is being deleted, and that a finalizer keeps, is the revision of its template until it is gone, and afterwards there is one of the
// same name: no pod is restarted.
func TestARevisionThatIsBeingDeleted(t *testing.T) {
	for name, w := range map[string]*world{"native": newWorld(t, 3, nil), "kruise": newAdvanced(t, 3, standard).world} {
		t.Run(name, func(t *testing.T) {
			w.settle()
			w.forgetLog()
			for _, r := range w.revisions {
				r.DeletionTimestamp, r.Finalizers = &metav1.Time{Time: w.clock.Now()}, []string{"foregroundDeletion"}
				r.ResourceVersion = w.next()
				w.seeRevision(r)
			}
			w.settle()
			for _, r := range w.revisions {
				delete(w.revisions, r.Name)
				w.index.DropRevision(r.UID)
			}
			w.settle()
			if len(w.wrote("delete")) > 0 || len(w.revisions) != 1 {
				t.Errorf("deleted %v, and there are %d revisions: the template is the same", w.wrote("delete"), len(w.revisions))
			}
		})
	}
}

// A revision that another version has hashed in its way, and that is lost, comes back under the hash that the pods carry.
func TestALostRevisionOfAnotherVersion(t *testing.T) {
	const hash = "5fd5b7d5"
	for name, w := range map[string]*world{"native": newWorld(t, 3, nil), "kruise": newAdvanced(t, 3, standard).world} {
		t.Run(name, func(t *testing.T) {
			w.settle()
			for _, r := range w.revisions {
				r.Labels[appsv1.ControllerRevisionHashLabelKey] = hash
				r.ResourceVersion = w.next()
				w.seeRevision(r)
			}
			for _, p := range w.pods {
				p.Labels = rehashed(p.Labels, hash)
				w.changed(p)
			}
			w.settle()
			w.forgetLog()
			for _, r := range w.revisions {
				delete(w.revisions, r.Name)
				w.index.DropRevision(r.UID)
			}
			w.settle()
			if len(w.wrote("delete")) > 0 || len(w.revisions) != 1 {
				t.Errorf("deleted %v, and there are %d revisions: the template is the same", w.wrote("delete"), len(w.revisions))
			}
		})
	}
}

// Where another object has the name of the lost one, the revision gets the name that it would have got.
func TestALostRevisionWhoseNameIsTaken(t *testing.T) {
	a := newAdvanced(t, 1, standard)
	a.settle()
	for _, r := range a.revisions {
		delete(a.revisions, r.Name)
		a.index.DropRevision(r.UID)
		stranger := r.DeepCopy()
		stranger.UID, stranger.OwnerReferences = "stranger", nil
		stranger.Labels = nil
		a.revisions[r.Name] = stranger
	}
	for range 5 {
		_ = a.pass()
		a.deliver()
	}
	a.settle()
	if len(a.revisions) != 2 {
		t.Errorf("%d revisions, want the stranger's and one more", len(a.revisions))
	}
}
