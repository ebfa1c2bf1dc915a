// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/revision"
)

// collision is data of a revision with a 32-bit hash that its template gives: an account can compute templates until one has a given hash.
func collision(t *testing.T) (data []byte, hash string) {
	t.Helper()
	data = []byte(`{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"evil"}]}}}}`)
	template, err := revision.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return data, hashOf(t, template)
}

// The committed revision was deleted, and another account makes one that looks like it: with its name, and a template that gives its hash. It is no source of
// pods for nodes that join or lose their pod, and no revision to return to.
func TestTheCommittedRevisionIsReplaced(t *testing.T) {
	for _, named := range []bool{true, false} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("with its name %t, another leader %t", named, again), func(t *testing.T) {
				w, r := governedWorld(t)
				data, hash := collision(t)
				first := w.currentRevision()
				w.edit("img:v2")
				w.settle()
				stored := r.last()
				delete(w.revisions, first.Name)
				w.index.DropRevision(first.UID)
				name := "ds-" + hash
				if named { // its hash is the one that the template of the forgery gives
					stored.CommittedRevision = name
					for _, p := range w.pods {
						if p.Spec.Containers[0].Image == "img:v1" {
							p.Labels = rehashed(p.Labels, hash)
							w.changed(p)
						}
					}
				}
				w.c.states[w.key].governed.last = &stored
				w.clock.Step(time.Minute)
				evil := &appsv1.ControllerRevision{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "evil", ResourceVersion: w.next(), CreationTimestamp: metav1.NewTime(w.clock.Now()),
						Labels: map[string]string{"app": "x", appsv1.ControllerRevisionHashLabelKey: hash}, Annotations: map[string]string{everynode.Committed: everynode.FormatCommitted(9, "evil")}},
					Data: runtime.RawExtension{Raw: data}, Revision: 1,
				}
				w.revisions[name] = evil
				w.seeRevision(evil)
				if again {
					w.anotherLeader(r, &stored)
				}
				w.passFor(5 * time.Second)
				w.joinNow("n9")
				for name, p := range w.pods {
					if p.Spec.NodeName == "n3" {
						w.gone(name)
					}
				}
				w.passFor(10 * time.Second)
				r.Approvals = append(r.Approvals, v1alpha1.RolloutApproval{ObjectMeta: metav1.ObjectMeta{Name: "undo"}, Spec: v1alpha1.RolloutApprovalSpec{
					Policy: "p", Set: "ds", Revision: r.last().TargetRevision, Decision: v1alpha1.UndoRollout,
				}})
				w.passFor(30 * time.Second)
				if got := w.images("evil"); len(got) > 0 || len(w.pods) != 5 {
					t.Errorf("%v run the template of another account; %d pods", got, len(w.pods))
				}
			})
		}
	}
}

// The status of an earlier manager names the committed revision without a digest: the rollout continues where it was, and the status gets the digest.
func TestAStatusWithoutADigest(t *testing.T) {
	w, r := governedWorld(t)
	first := w.currentRevision()
	w.edit("img:v2")
	w.passFor(30 * time.Second)
	stored := r.last()
	if stored.CommittedDigest == "" || stored.Phase != v1alpha1.PhaseWaitingForApproval {
		t.Fatalf("%+v", stored)
	}
	digest := stored.CommittedDigest
	stored.CommittedDigest = ""
	w.forgetLog()
	w.anotherLeader(r, &stored)
	w.passFor(2 * time.Second)
	got := r.last()
	if got.CommittedRevision != first.Name || got.CommittedDigest != digest || got.Phase != v1alpha1.PhaseWaitingForApproval || len(w.log) > 0 && slices.Contains(w.wrote("delete"), "n1") {
		t.Errorf("%+v", got)
	}
	w.joinNow("n9")
	w.passFor(5 * time.Second)
	if got := w.images("img:v1"); !slices.Equal(got, []string{"n2", "n3", "n4", "n9"}) {
		t.Errorf("%v have the committed revision", got)
	}
}
