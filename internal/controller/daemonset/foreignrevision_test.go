// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"math"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// passFor runs passes for that long, each a second after the one before, whatever they say.
func (w *world) passFor(d time.Duration) {
	for range int(d / time.Second) {
		_ = w.pass()
		w.kubelets()
		w.deliver()
		w.clock.Step(time.Second)
	}
}

// currentRevision is the revision with the highest number.
func (w *world) currentRevision() *appsv1.ControllerRevision {
	var newest *appsv1.ControllerRevision
	for _, r := range w.revisions {
		if newest == nil || r.Revision > newest.Revision {
			newest = r
		}
	}
	return newest
}

// foreignRevision is a revision without an owner that the set selects, as anybody may make one who may write revisions in its namespace.
func (w *world) foreignRevision(name, hash string, number int64) {
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-evil", ResourceVersion: w.next(), Labels: map[string]string{"app": "x", appsv1.ControllerRevisionHashLabelKey: hash}},
		Data:       runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"evil"}]}}}}`)},
		Revision:   number,
	}
	w.revisions[name] = r
	w.seeRevision(r)
}

// A revision of somebody else that has the hash of the current one restarts nothing.
func TestARevisionWithTheHashOfTheCurrentOneRestartsNothing(t *testing.T) {
	w := newWorld(t, 3, nil)
	w.settle()
	w.forgetLog()
	w.foreignRevision("evil", w.currentRevision().Labels[appsv1.ControllerRevisionHashLabelKey], math.MaxInt64)
	w.passFor(time.Minute)
	if deleted := w.wrote("delete"); len(deleted) > 0 {
		t.Errorf("%d pods were restarted for a template that nobody has changed: %v", len(deleted), deleted)
	}
	if got := w.status("updatedNumberScheduled"); got != 3 {
		t.Errorf("updated %d, want 3", got)
	}
}

// A label of a revision that could be no part of a name, and that goes with its revision, does not stop the set.
func TestARevisionWithAHashThatIsNoNameStopsNothing(t *testing.T) {
	for _, dialect := range []string{"native", "kruise"} {
		t.Run(dialect, func(t *testing.T) {
			var w *world
			if dialect == "native" {
				w = newWorld(t, 3, nil)
			} else {
				w = newAdvanced(t, 3, standard).world
			}
			w.before = func(verb, name string) error { // the API server takes no such name
				if verb == "create-revision" && len(validation.NameIsDNSSubdomain(name, false)) > 0 {
					return apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "ControllerRevision"}, name, nil)
				}
				return nil
			}
			w.settle()
			// as kubectl label controllerrevision ds-xyz controller-revision-hash=Not_A_Name --overwrite does
			r := w.currentRevision()
			r.Labels[appsv1.ControllerRevisionHashLabelKey] = "Not_A_Name"
			r.ResourceVersion = w.next()
			w.seeRevision(r)
			w.passFor(30 * time.Second)
			// as kubectl delete controllerrevision ds-xyz does
			for name, r := range w.revisions {
				delete(w.revisions, name)
				w.index.DropRevision(r.UID)
			}
			w.passFor(30 * time.Second)
			w.join("joined")
			w.passFor(2 * time.Minute)
			if len(w.pods) != 4 {
				t.Errorf("%d pods, want 4: the node that has joined gets none; the last error: %v", len(w.pods), w.pass())
			}
			for name := range w.revisions {
				t.Log("revision", name)
			}
		})
	}
}

// A revision of which somebody changes the label just after the set was changed outside of its template restarts nothing.
func TestALabelOfARevisionAndAnEditOutsideTheTemplateRestartNothing(t *testing.T) {
	w := newAdvanced(t, 3, standard)
	w.settle()
	w.forgetLog()
	r := w.currentRevision()
	r.Labels[appsv1.ControllerRevisionHashLabelKey] = "other"
	r.ResourceVersion = w.next()
	w.seeRevision(r)
	w.change(func(spec map[string]any) { spec["minReadySeconds"] = int64(1) })
	w.passFor(time.Minute)
	if deleted := w.wrote("delete"); len(deleted) > 0 {
		t.Errorf("%d pods were restarted for a template that nobody has changed: %v", len(deleted), deleted)
	}
}
