// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// rehash gives the only revision another hash.
func (w *world) rehash(hash string) *appsv1.ControllerRevision {
	for _, r := range w.revisions {
		r.Labels[appsv1.ControllerRevisionHashLabelKey] = hash
		r.ResourceVersion = w.next()
		return r
	}
	return nil
}

// rehashed are the labels of a pod with another hash; the index keeps those that it has seen.
func rehashed(labels map[string]string, hash string) map[string]string {
	labels = maps.Clone(labels)
	labels[appsv1.ControllerRevisionHashLabelKey] = hash
	return labels
}

// Each case takes the hash that pods carry out of the history, and leaves the template as it is.
func TestAHashThatNoRevisionHasAnyMoreRestartsNothing(t *testing.T) {
	for name, change := range map[string]func(a *advanced){
		"the label is changed": func(a *advanced) { a.seeRevision(a.rehash("changed")) },
		"another revision of the template is left": func(a *advanced) {
			r := a.rehash("left")
			a.index.DropRevision(r.UID)
			delete(a.revisions, r.Name)
			left := r.DeepCopy()
			left.Name, left.UID = "ds-left", types.UID("left")
			a.revisions[left.Name] = left
			a.seeRevision(left)
		},
		"another version has hashed it, and the set is edited": func(a *advanced) {
			r := a.rehash("theirs")
			a.seeRevision(r)
			for _, p := range a.pods {
				p.Labels = rehashed(p.Labels, "theirs")
				a.changed(p)
			}
			a.settle()
			a.forgetLog()
			delete(a.revisions, r.Name)
			a.index.DropRevision(r.UID)
			a.change(func(spec map[string]any) { spec["minReadySeconds"] = int64(1) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAdvanced(t, 3, standard)
			a.settle()
			a.forgetLog()
			change(a)
			a.settle()
			a.change(func(spec map[string]any) { spec["minReadySeconds"] = int64(2) })
			a.settle()
			if d := a.wrote("delete"); len(d) != 0 {
				t.Errorf("deleted pods %v, and the template is the same", d)
			}
			a.image("img:v2")
			a.settle()
			if d := a.wrote("delete"); len(d) != 3 {
				t.Errorf("deleted pods %v after a change of the template, want all three", d)
			}
		})
	}
}

// Two revisions have the same template, and pods carry the hashes of both, as when one was restored from a backup. That one of the two is deleted restarts
// nothing.
func TestOneOfTwoRevisionsOfATemplateIsDeleted(t *testing.T) {
	for _, deleted := range []string{"the newer one", "the older one", "the newer one, for a new leader"} {
		t.Run(deleted, func(t *testing.T) {
			a, older, newer := withTwin(t)
			gone := newer
			if deleted == "the older one" {
				gone = older
			}
			delete(a.revisions, gone.Name)
			a.index.DropRevision(gone.UID)
			if deleted == "the newer one, for a new leader" {
				a.c = New(a.c.Options)
			}
			a.settle()
			a.join("another")
			a.settle()
			if d := a.wrote("delete"); len(d) > 0 || len(a.pods) != 5 {
				t.Errorf("there are %d pods, and %v were deleted: the template is the same", len(a.pods), d)
			}
			a.image("img:v2")
			a.settle()
			if d := a.wrote("delete"); len(d) != 5 {
				t.Errorf("deleted pods %v after a change of the template, want all five", d)
			}
		})
	}
}

// withTwin is a set with two revisions of its template, and pods of both.
func withTwin(t *testing.T) (a *advanced, older, newer *appsv1.ControllerRevision) {
	t.Helper()
	a = newAdvanced(t, 3, standard)
	a.settle()
	older = a.currentRevision()
	newer = older.DeepCopy()
	newer.Name, newer.UID, newer.ResourceVersion, newer.Revision = "ds-twin", "twin", a.next(), 5
	newer.Labels[appsv1.ControllerRevisionHashLabelKey] = "twin"
	a.revisions[newer.Name] = newer
	a.seeRevision(newer)
	a.settle()
	a.join("joined")
	a.settle()
	a.forgetLog()
	return a, older, newer
}

// The revision that pods have lost cannot be written again, as with a quota, or a webhook that does not answer: the set goes on, and nothing restarts.
func TestALostTwinThatCannotBeWritten(t *testing.T) {
	for name, refusal := range map[string]error{
		"a quota":    apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, "ds-twin", errors.New("exceeded quota")),
		"no answer":  apierrors.NewTimeoutError("no answer", 1),
		"a conflict": apierrors.NewConflict(schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, "ds-twin", errors.New("no")),
	} {
		t.Run(name, func(t *testing.T) {
			a, _, newer := withTwin(t)
			a.before = func(verb, name string) error {
				if verb == "create-revision" && name == "ds-twin" {
					return refusal
				}
				return nil
			}
			delete(a.revisions, newer.Name)
			a.index.DropRevision(newer.UID)
			a.join("another")
			for range 20 {
				a.deliver()
				_ = a.pass()
				a.kubelets()
				a.clock.Step(time.Second)
			}
			if d := a.wrote("delete"); len(d) > 0 || len(a.pods) != 5 {
				t.Errorf("there are %d pods, and %v were deleted: the template is the same", len(a.pods), d)
			}
			if tries := len(a.wrote("create-revision")); tries != 1 {
				t.Errorf("the revision was written %d times in 20 s", tries)
			}
			a.before = nil
			a.clock.Step(time.Minute)
			a.settle()
			if a.revisions["ds-twin"] == nil || len(a.wrote("delete")) > 0 {
				t.Errorf("the history is %v, deleted %v", a.revisions, a.wrote("delete"))
			}
		})
	}
}

// The label of the current revision was changed, and cannot be changed back: the set goes on, and nothing restarts.
func TestAChangedHashThatCannotBeChangedBack(t *testing.T) {
	a := newAdvanced(t, 3, standard)
	a.settle()
	a.forgetLog()
	a.before = func(verb, name string) error {
		if verb == "patch-revision" {
			return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, name, errors.New("revisions are protected"))
		}
		return nil
	}
	a.seeRevision(a.rehash("changed"))
	a.join("joined")
	for range 20 {
		a.deliver()
		_ = a.pass()
		a.kubelets()
		a.clock.Step(time.Second)
	}
	if d := a.wrote("delete"); len(d) > 0 || len(a.pods) != 4 {
		t.Errorf("there are %d pods, and %v were deleted: the template is the same", len(a.pods), d)
	}
	a.before = nil
	a.clock.Step(time.Minute)
	a.settle()
	if d := a.wrote("delete"); len(d) > 0 {
		t.Errorf("deleted %v: the template is the same", d)
	}
}

// TestALostTwinAndANewLeader is a limit: of the two revisions of a template one is deleted and cannot be written again. Only the leader that has seen it knows that the
// pods with its hash are up to date; a pod has no other trace of its template that could be trusted. The next leader updates these pods, and no others.
func TestALostTwinAndANewLeader(t *testing.T) {
	a, _, newer := withTwin(t)
	var ofTwin []string
	for name, p := range a.pods {
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] == "twin" {
			ofTwin = append(ofTwin, name)
		}
	}
	a.before = func(verb, name string) error {
		if verb == "create-revision" && name == "ds-twin" {
			return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, "ds-twin", errors.New("exceeded quota"))
		}
		return nil
	}
	delete(a.revisions, newer.Name)
	a.index.DropRevision(newer.UID)
	lasts := func() {
		for range 20 {
			a.deliver()
			_ = a.pass()
			a.kubelets()
			a.clock.Step(time.Second)
		}
	}
	lasts()
	if d := a.wrote("delete"); len(d) > 0 {
		t.Fatalf("deleted %v: the leader has seen the revision", d)
	}
	a.c = New(a.c.Options)
	lasts()
	if d := a.wrote("delete"); len(ofTwin) != 1 || !slices.Equal(d, ofTwin) || len(a.pods) != 4 {
		t.Errorf("deleted %v, want %v: update this test and docs/operations.md", d, ofTwin)
	}
}
