// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/revision"
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
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-evil", ResourceVersion: w.next(), CreationTimestamp: metav1.NewTime(w.clock.Now()), Labels: map[string]string{"app": "x", appsv1.ControllerRevisionHashLabelKey: hash}},
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

// A revision that another one precedes in its hash is no source of pods, although the set adopts it: neither for a set that was created again, whose
// held nodes get the newest revision but one, nor where a held node gets its pod again.
func TestARevisionWithTheHashOfAnotherIsNoSourceOfPods(t *testing.T) {
	const held = `{updateStrategy: {rollingUpdate: {partition: "100%"}}}`
	images := func(a *advanced) (images []string) {
		for _, p := range a.pods {
			images = append(images, p.Spec.Containers[0].Image)
		}
		return images
	}
	for name, hash := range map[string]func(a *advanced) string{
		"of the current one, created again": func(a *advanced) string {
			for name := range a.pods {
				a.gone(name)
			}
			for name, r := range a.revisions {
				delete(a.revisions, name)
				a.index.DropRevision(r.UID)
			}
			a.index.DeleteSet(a.key)
			a.set.SetUID("again")
			a.set.SetResourceVersion(a.next())
			for i := range 3 {
				a.index.PutNode(clustercache.Node{Name: fmt.Sprintf("n%d", i+1), RV: a.next(), Ready: true, Created: 1})
			}
			a.seeSet()
			return hashOf(t, a.set.Object["spec"].(map[string]any)["template"].(map[string]any))
		},
		"of one that held nodes run": func(a *advanced) string {
			first := a.currentRevision().Labels[appsv1.ControllerRevisionHashLabelKey]
			a.image("img:v2")
			a.settle()
			return first
		},
	} {
		for where, number := range map[string]int64{"before all": 0, "after all": math.MaxInt64 - 10} {
			t.Run(name+", "+where, func(t *testing.T) {
				a := newAdvanced(t, 3, held)
				a.settle()
				want := images(a)
				a.clock.Step(time.Hour)
				a.foreignRevision("evil", hash(a), number)
				for name := range a.pods {
					a.gone(name)
				}
				a.passFor(time.Minute)
				if got := images(a); !slices.Equal(got, want) {
					t.Errorf("the pods have the images %v, want %v", got, want)
				}
			})
		}
	}
}

func hashOf(t *testing.T, template map[string]any) string {
	t.Helper()
	hash, err := revision.Hash(template, nil)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}
