// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// anotherRevision is a foreign revision with a name and a hash of its own, changed as change says.
func (w *world) anotherRevision(i int, change func(r *appsv1.ControllerRevision)) {
	name := fmt.Sprint("foreign-", i)
	r := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: w.next(), CreationTimestamp: metav1.NewTime(w.clock.Now()),
		Labels: map[string]string{"app": "x", appsv1.ControllerRevisionHashLabelKey: fmt.Sprint("foreign", i)},
	}}
	r.Data.Raw = []byte(`{"spec":{"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"foreign"}]}}}}`)
	if change != nil {
		change(r)
	}
	w.revisions[name] = r
	w.seeRevision(r)
}

// ownedUnlabelled makes a revision one of the set that has no label with its hash.
func (w *world) ownedUnlabelled(r *appsv1.ControllerRevision) {
	controller := true
	r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "ds", UID: w.set.GetUID(), Controller: &controller}}
	delete(r.Labels, appsv1.ControllerRevisionHashLabelKey)
}

// kindsOfForeign are revisions that everyone can create who may create revisions.
func kindsOfForeign(w *world) map[string]func(r *appsv1.ControllerRevision) {
	return map[string]func(r *appsv1.ControllerRevision){"without an owner": nil, "of the set, without a label": w.ownedUnlabelled}
}

// Revisions that come as fast as they are adopted or labelled do not keep a node from its pod.
func TestForeignRevisionsThatKeepComing(t *testing.T) {
	for kind := range kindsOfForeign(nil) {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, 2, nil)
			w.settle()
			made := 0
			another := func() {
				made++
				w.anotherRevision(made, kindsOfForeign(w)[kind])
			}
			w.after = func(verb, _ string) error {
				if verb == "patch-revision" {
					another()
				}
				return nil
			}
			another()
			w.join("joined")
			last := w.passesFor(10 * time.Second)
			if len(w.pods) != 3 || made < 5 {
				t.Errorf("%d pods after %d revisions, want 3; the last error: %v", len(w.pods), made, last)
			}
		})
	}
}

// A pass adopts, labels and deletes a limited number of revisions, so it ends soon, and all have their turn.
func TestThousandsOfForeignRevisions(t *testing.T) {
	const many = 300
	for kind := range kindsOfForeign(nil) {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, 2, nil)
			w.settle()
			for i := range many {
				w.anotherRevision(i, kindsOfForeign(w)[kind])
			}
			most := 0
			for range 60 {
				w.forgetLog()
				w.mustPass()
				w.kubelets()
				w.clock.Step(time.Second)
				most = max(most, len(w.log))
			}
			if most > 3*tidyLimit {
				t.Errorf("a pass made %d writes", most)
			}
			if len(w.revisions) > 11 {
				t.Errorf("%d revisions are left, want the current one and ten old ones", len(w.revisions))
			}
		})
	}
}

// A revision that no pod needs and that cannot be adopted or labelled, for example because it is as large as objects may be, holds up nothing. What the
// API server answers is shown, and it is not asked in every pass.
func TestAForeignRevisionThatCannotBeChanged(t *testing.T) {
	for name, err := range map[string]error{
		"refused": apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "foreign-1", errors.New("it stays as it is")),
		"unclear": apierrors.NewInternalError(errors.New("etcdserver: request is too large; it stays as it is")),
	} {
		for kind := range kindsOfForeign(nil) {
			t.Run(name+", "+kind, func(t *testing.T) {
				w := newWorld(t, 2, nil)
				w.settle()
				w.allEvents()
				w.forgetLog()
				w.anotherRevision(1, kindsOfForeign(w)[kind])
				w.before = func(verb, name string) error {
					if verb == "patch-revision" && name == "foreign-1" {
						return err
					}
					return nil
				}
				w.join("joined")
				last := w.passesFor(2 * time.Minute)
				if len(w.pods) != 3 {
					t.Errorf("%d pods, want 3; the last error: %v", len(w.pods), last)
				}
				if tries := len(w.wrote("patch-revision")); tries < 2 || tries > 3 {
					t.Errorf("tried %d times in two minutes", tries)
				}
				if events := w.allEvents(); !strings.Contains(events, "it stays as it is") {
					t.Errorf("no event shows why: %s", events)
				}
			})
		}
	}
}

// The revision of the pods of an earlier life of the set is adopted before any other, and no pod is restarted.
func TestTheRevisionOfThePodsIsAdoptedFirst(t *testing.T) {
	a := newAdvanced(t, 3, standard)
	a.settle()
	r := a.rehash("theirs") // by another version
	r.Revision, r.OwnerReferences = 1000, nil
	for _, p := range a.pods {
		p.Labels = rehashed(p.Labels, "theirs")
		p.OwnerReferences = nil
		p.ResourceVersion = a.next()
	}
	a.index.DeleteSet(a.key)
	a.set.SetUID("again")
	a.set.SetResourceVersion(a.next())
	a.set.Object["status"] = map[string]any{}
	for i := range 3 * tidyLimit {
		a.anotherRevision(i, nil)
	}
	a.deliver()
	a.forgetLog()
	_ = a.passesFor(20 * time.Second)
	if len(a.wrote("delete"))+len(a.wrote("create")) > 0 || len(a.wrote("patch-revision")) < 2*tidyLimit {
		t.Errorf("wrote %v", a.log)
	}
}
