// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/dialect/base"
)

// A policy of admission that protects ControllerRevisions keeps the mark from being written, without which nothing starts: the status and an event have its words.
func TestRefusedMarkIsShown(t *testing.T) {
	w, r := governedWorld(t)
	for _, rev := range w.revisions {
		delete(rev.Annotations, everynode.Committed)
		rev.ResourceVersion = w.next()
		w.seeRevision(rev)
	}
	w.before = func(verb, name string) error {
		if verb != "patch-revision" {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, name, errors.New("revisions are protected"))
	}
	w.edit("img:v2")
	for range 5 {
		_ = w.pass()
		w.kubelets()
		w.clock.Step(time.Second)
	}
	blocking := r.last().Blocking
	if len(blocking) != 1 || blocking[0].Reason != "MarkRefused" || !strings.Contains(blocking[0].Message, "revisions are protected") {
		t.Errorf("blocking is %+v", blocking)
	}
	if events := w.allEvents(); strings.Count(events, base.ReasonFailedRevision) != 1 || !strings.Contains(events, "revisions are protected") {
		t.Errorf("events %s", events)
	}
	w.before = nil
	w.settle()
	if nodes := w.images("img:v2"); strings.Join(nodes, "") != "n1" || len(r.last().Blocking) > 0 && r.last().Blocking[0].Reason == "MarkRefused" {
		t.Errorf("%v, %+v", nodes, r.last())
	}
}
