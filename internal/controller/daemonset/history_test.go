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
)

func TestRollsBackToAnOldRevision(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.settle()
	w.edit("img:v2")
	w.settle()
	w.edit("img:v1")
	w.settle()
	if len(w.revisions) != 2 {
		t.Fatalf("%d revisions, want 2", len(w.revisions))
	}
	numbers := map[int64]bool{}
	for _, r := range w.revisions {
		numbers[r.Revision] = true
	}
	if !numbers[2] || !numbers[3] {
		t.Errorf("revision numbers %v, want 2 and 3", numbers)
	}
}

func TestAHashCollisionRaisesTheCount(t *testing.T) {
	w := newWorld(t, 1, nil)
	var taken string
	w.before = func(verb, name string) error {
		if verb == "create-revision" && taken == "" {
			taken = name
			w.revisions[name] = &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: "ns", UID: "x", ResourceVersion: w.next(),
				OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", APIVersion: "apps/v1", UID: "other", Controller: new(true)}},
			}}
		}
		return nil
	}
	if err := w.pass(); err == nil || !strings.Contains(err.Error(), "collision") {
		t.Fatalf("error %v, want the collision", err)
	}
	if got := w.status("collisionCount"); got != 1 {
		t.Fatalf("collisionCount %d, want 1", got)
	}
	w.settle()
	if len(w.revisions) != 2 || len(w.pods) != 1 {
		t.Errorf("%d revisions, %d pods", len(w.revisions), len(w.pods))
	}
}

func TestHistoryIsTruncatedButNotWhatPodsCarry(t *testing.T) {
	limit := int32(1)
	w := newWorld(t, 1, func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = &limit })
	for i := range 5 {
		w.edit(fmt.Sprintf("img:v%d", i+2))
		w.settle()
	}
	w.settle()
	if len(w.revisions) != 2 {
		t.Errorf("%d revisions are left, want the current one and one old", len(w.revisions))
	}
}

func TestAdoptsRevisionsOfAnEarlierLife(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.settle()
	for _, r := range w.revisions {
		r.OwnerReferences = nil
		r.ResourceVersion = w.next()
	}
	for _, p := range w.pods {
		p.OwnerReferences = nil
		p.ResourceVersion = w.next()
	}
	w.deliver()
	w.forgetLog()
	w.settle()
	if c, r := w.wrote("create"), w.wrote("create-revision"); len(c)+len(r) != 0 {
		t.Errorf("created pods %v and revisions %v instead of adopting", c, r)
	}
}

func TestTheStatusIsWrittenAlsoWhenTheRevisionIsRefused(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.settle()
	w.edit("img:v2")
	for name := range w.pods {
		w.gone(name)
	}
	w.before = func(verb, _ string) error {
		if verb == "create-revision" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "x", errors.New("exceeded quota"))
		}
		return nil
	}
	w.clock.Step(time.Second)
	if err := w.pass(); !apierrors.IsForbidden(err) {
		t.Fatalf("error %v", err)
	}
	if w.status("numberReady") != 0 || w.status("observedGeneration") != 1 || len(w.pods) != 0 {
		t.Errorf("status %v, %d pods", w.set.Object["status"], len(w.pods))
	}
}

// Pods that were adopted are counted by their revision, also while that cannot be adopted.
func TestTheStatusCountsPodsOfARevisionThatIsStillToBeAdopted(t *testing.T) {
	w := newWorld(t, 2, func(ds *appsv1.DaemonSet) { ds.Annotations = nil }) // else the generation of the template would tell
	w.settle()
	for _, r := range w.revisions {
		r.OwnerReferences = nil
		r.ResourceVersion = w.next()
	}
	w.deliver()
	w.set.Object["status"] = map[string]any{}
	w.seeSet()
	w.clock.Step(time.Minute)
	w.before = func(verb, _ string) error {
		if verb == "patch-revision" {
			return apierrors.NewTimeoutError("time is up", 1)
		}
		return nil
	}
	w.forgetLog()
	if err := w.pass(); !apierrors.IsTimeout(err) {
		t.Fatalf("error %v, want that time is up", err)
	}
	if got := w.status("updatedNumberScheduled"); got != 2 {
		t.Errorf("updatedNumberScheduled %d, want 2", got)
	}
	if w.status("observedGeneration") != 0 || len(w.wrote("delete"))+len(w.wrote("create")) != 0 {
		t.Errorf("status %v, wrote %v", w.set.Object["status"], w.log)
	}
	w.before = nil
	w.settle()
	if w.status("observedGeneration") != 1 || len(w.wrote("create"))+len(w.wrote("delete"))+len(w.wrote("create-revision")) != 0 {
		t.Errorf("status %v, wrote %v", w.set.Object["status"], w.log)
	}
}

func TestAdoptsALongHistoryInOnePass(t *testing.T) {
	w := newWorld(t, 1, nil)
	for i := range 8 {
		w.edit(fmt.Sprintf("img:v%d", i+2))
		w.settle()
	}
	for _, r := range w.revisions {
		r.OwnerReferences = nil
		r.ResourceVersion = w.next()
	}
	w.deliver()
	w.mustPass()
	for name, r := range w.revisions {
		if metav1.GetControllerOf(r) == nil {
			t.Errorf("revision %s was not adopted", name)
		}
	}
}
