// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
)

// anotherLeader is what begins with nothing but what the cluster has.
func (w *world) anotherLeader(r *rules, stored *v1alpha1.SetStatus) {
	w.c.states = map[clustercache.Key]*state{}
	r.Stored = stored
}

// joinNow adds a node that is younger than the rollout.
func (w *world) joinNow(name string) {
	w.index.PutNode(clustercache.Node{Name: name, RV: w.next(), Ready: true, Created: timeOf(w.clock.Now())})
}

// A mark everynode.dev/committed on the target that the status does not confirm releases nothing, also under another leader, while the policies are not
// read, and after the status was lost; with the approval the rollout ends as usual.
func TestACommittedMarkThatTheStatusDoesNotConfirm(t *testing.T) {
	for name, next := range map[string]func(w *world, r *rules){
		"the same leader": func(*world, *rules) {},
		"another leader": func(w *world, r *rules) {
			stored := r.last()
			w.anotherLeader(r, &stored)
		},
		"the status is lost": func(w *world, r *rules) { w.anotherLeader(r, nil) },
		"policies are not read": func(w *world, r *rules) {
			stored, rules := r.last(), r.Governance
			r.Governance = Governance{Unread: true}
			w.anotherLeader(r, nil)
			w.passFor(10 * time.Second)
			r.Governance = rules
			w.anotherLeader(r, &stored)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := governedWorld(t)
			w.edit("img:v2")
			w.settle()
			target := w.currentRevision()
			w.markBy(target.Name, everynode.Committed, everynode.FormatCommitted(9, string(target.UID)))
			next(w, r)
			w.passFor(60 * time.Second)
			if got := w.images("img:v2"); strings.Join(got, "") != "n1" || r.last().Phase != v1alpha1.PhaseWaitingForApproval {
				t.Fatalf("%v have the target, phase %s, marks %v", got, r.last().Phase, w.commits())
			}
			w.joinNow("n9")
			w.passFor(5 * time.Second)
			if got := w.images("img:v2"); strings.Join(got, "") != "n1" {
				t.Fatalf("%v have the target after a node has joined", got)
			}
			r.approve("canary", target.Name)
			w.passFor(30 * time.Second)
			if got := r.last(); got.Phase != v1alpha1.PhaseComplete || got.CommittedRevision != target.Name || len(w.images("img:v2")) != 5 {
				t.Errorf("phase %s, committed %s, %v have the target", got.Phase, got.CommittedRevision, w.images("img:v2"))
			}
		})
	}
}

// A mark everynode.dev/failed on the target that the status does not confirm neither stops the rollout nor undoes it, and the status names the revision
// and what to do, until the mark is removed. If the status was lost, the mark holds the revision until a user retries it, and nothing is undone.
func TestAFailedMarkThatTheStatusDoesNotConfirm(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w, r := governedWorld(t)
		w.edit("img:v2")
		w.settle()
		target := w.currentRevision()
		w.markBy(target.Name, everynode.Failed, everynode.FormatFailed(everynode.Failure{Number: target.Revision, Undo: true, Message: "no"}, string(target.UID)))
		if lost {
			w.anotherLeader(r, nil)
		}
		w.passFor(30 * time.Second)
		if lost {
			if got := w.images("img:v2"); strings.Join(got, "") != "n1" || r.last().Phase != v1alpha1.PhaseFailed || !strings.Contains(r.last().Blocking[0].Message, everynode.Failed) {
				t.Fatalf("%v have the target, %+v", got, r.last())
			}
			r.decide(v1alpha1.Retry, "", target.Name)
			w.passFor(30 * time.Second)
		}
		reported := lost || slices.ContainsFunc(r.last().Blocking, func(b v1alpha1.Blocking) bool {
			return b.Reason == "UnconfirmedFailure" && strings.Contains(b.Message, target.Name)
		})
		if got := w.images("img:v2"); strings.Join(got, "") != "n1" || r.last().Phase != v1alpha1.PhaseWaitingForApproval || !reported {
			t.Fatalf("lost %t: %v have the target, %+v", lost, got, r.last())
		}
		r.approve("canary", target.Name)
		w.passFor(30 * time.Second)
		if got := r.last(); got.Phase != v1alpha1.PhaseComplete || len(w.images("img:v2")) != 4 || w.currentRevision().Annotations[everynode.Failed] != "" && lost {
			t.Errorf("lost %t: phase %s, %v have the target", lost, got.Phase, w.images("img:v2"))
		}
	}
}

// A set at rest of which the status was lost stays at rest, and so does one whose policy is made again; nodes that join get what all nodes have.
func TestAStatusThatIsLostAtRest(t *testing.T) {
	w, r := governedWorld(t)
	w.edit("img:v2")
	w.settle()
	r.approve("canary", w.currentRevision().Name)
	w.passFor(30 * time.Second)
	w.anotherLeader(r, nil)
	r.Approvals = nil
	w.joinNow("n9")
	w.passFor(30 * time.Second)
	if got := w.images("img:v2"); len(got) != 5 || r.last().Phase != v1alpha1.PhaseComplete {
		t.Errorf("%v have the newest revision, phase %s", got, r.last().Phase)
	}
}

// What is reported of a set whose specification is not valid keeps the committed revision and the target: the marks do not count without them.
func TestASetThatIsNotValidKeepsItsCommittedRevision(t *testing.T) {
	w, r := governedWorld(t)
	first := w.currentRevision().Name
	w.edit("img:v2")
	w.settle()
	stored := r.last()
	r.Stored = &stored
	unstructured.RemoveNestedField(w.set.Object, "spec", "selector")
	w.edit("img:v2")
	w.passFor(5 * time.Second)
	if got := r.last(); got.Phase != v1alpha1.PhaseStalled || got.Blocking[0].Reason != "NotServed" || got.CommittedRevision != first || got.TargetRevision != stored.TargetRevision {
		t.Errorf("%+v", got)
	}
}
