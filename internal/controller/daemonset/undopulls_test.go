// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// pullingUndo is a world with a set that pulls images ahead, and a policy that undoes a revision that fails on one node of a canary of three. It fails on n1 only.
func pullingUndo(t *testing.T) (*world, *rules, *jobs) {
	t.Helper()
	w := newWorld(t, 4, func(ds *appsv1.DaemonSet) {
		most := intstr.FromInt32(3)
		ds.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &most}
	})
	j := w.pullAhead()
	p := canaryPolicy()
	three, one := int32(3), intstr.FromInt32(1)
	p.Spec.Waves[0].Nodes.Count, p.Spec.Undo = &three, &v1alpha1.Undo{MaxUnavailable: &one}
	p.Spec.Waves[0].After, p.Spec.Failure = nil, &v1alpha1.Failure{NodeDeadline: &metav1.Duration{Duration: time.Hour}, Action: v1alpha1.FailureUndo}
	r := &rules{Governance: Governance{Policies: []*policy.Policy{policy.Read(p)}}}
	w.c.Policies = stored{r}
	w.settle()
	return w, r, j
}

// failsOn has pods with the image img:bad crash on one node, and those with other images start only if they do.
func (w *world) failsOn(node string, others bool) {
	w.crashing("img:bad")
	crashes := w.kubelet
	w.crashing("")
	works := w.kubelet
	w.kubelet = func(p *corev1.Pod) bool {
		rec, _ := w.index.PodFrom(p)
		switch bad := p.Spec.Containers[0].Image == "img:bad"; {
		case bad && rec.Node == node:
			return crashes(p)
		default:
			return (bad || others) && works(p)
		}
	}
}

// TestAnUndoWritesNoMarksAgainAndAgain: as long as an undo lasts, because the pod of the committed revision does not start any more, no pass writes the marks about images once more.
func TestAnUndoWritesNoMarksAgainAndAgain(t *testing.T) {
	w, r, _ := pullingUndo(t)
	w.failsOn("n1", false)
	w.edit("img:bad")
	w.passFor(20 * time.Second)
	if r.last().Phase != v1alpha1.PhaseUndoing || len(w.images("img:bad")) == 0 {
		t.Fatalf("the phase is %s, and %v have the revision", r.last().Phase, w.images("img:bad"))
	}
	w.forgetLog()
	for range 5 {
		w.deliver()
		w.mustPass()
		w.clock.Step(time.Second)
	}
	if again := w.wrote("patch-revision"); len(again) > 0 {
		t.Errorf("in 5 passes, %d writes: %v, and the marks are %v", len(again), again, w.marks())
	}
}

// TestAnUndoWaitsForNoImageOfTheFailedRevision: a node that has a pod of an earlier revision, for example because it was not ready for long, returns to the committed one during an undo. It does
// not wait for the images of the revision that has failed, which nothing pulls any more.
func TestAnUndoWaitsForNoImageOfTheFailedRevision(t *testing.T) {
	w, r, j := pullingUndo(t)
	w.failsOn("n1", true)
	old := w.pods[w.podOn("n4")].DeepCopy()
	for _, image := range []string{"img:v2", "img:bad"} {
		for _, node := range []string{"n1", "n2", "n3", "n4"} {
			j.there[node] = image
		}
		w.edit(image)
		w.annotate(everynode.WaitForImage, "true")
		if image == "img:v2" {
			w.settleAndWait()
			w.settleAndWait()
		}
	}
	if r.last().Phase != v1alpha1.PhaseComplete {
		t.Fatalf("%+v", r.last())
	}
	delete(j.there, "n4")
	for i := 0; i < 60 && r.last().Phase != v1alpha1.PhaseUndoing; i++ {
		w.deliver()
		w.mustPass()
		w.kubelets()
		w.clock.Step(time.Second)
	}
	back := w.pods[w.podOn("n4")]
	back.Labels, back.Spec = old.Labels, old.Spec
	w.changed(back)
	w.settleAndWait()
	if of := w.images("img:v2"); r.last().Phase != v1alpha1.PhaseFailed || !slices.Equal(of, []string{"n1", "n2", "n3", "n4"}) {
		t.Errorf("the phase is %s, and %v have the committed revision", r.last().Phase, of)
	}
}

// podOn is the name of the pod on a node.
func (w *world) podOn(node string) string {
	for name, p := range w.pods {
		if p.Spec.NodeName == node {
			return name
		}
	}
	w.t.Fatalf("no pod on %s", node)
	return ""
}

// TestNothingPullsTheFailedRevisionAfterItsUndo: the nodes have returned, and nothing pulls the images of the failed revision again, also for a set that waits for images.
func TestNothingPullsTheFailedRevisionAfterItsUndo(t *testing.T) {
	for _, waits := range []string{"false", "true"} {
		w, r, j := pullingUndo(t)
		w.failsOn("n1", true)
		w.annotate(everynode.WaitForImage, waits)
		for _, node := range []string{"n1", "n2", "n3", "n4"} {
			j.there[node] = "img:bad"
		}
		w.edit("img:bad")
		w.passFor(20 * time.Second)
		w.settleAndWait()
		if r.last().Phase != v1alpha1.PhaseFailed || len(w.images("img:bad")) > 0 {
			t.Fatalf("the phase is %s, and %v have the revision", r.last().Phase, w.images("img:bad"))
		}
		if marks := w.marks(); len(j.all)+len(marks) > 0 {
			t.Errorf("waits %s: the nodes have returned, and there are the jobs %v and the marks %v", waits, slices.Collect(maps.Keys(j.all)), marks)
		}
		// A node may still lack the image of the failed revision, and nothing pulls that any more.
		delete(j.there, "n4")
		if again, err := w.c.Reconcile(t.Context(), w.key); err != nil || again != 0 {
			t.Errorf("waits %s: the nodes have returned, and the set comes back after %v: %v", waits, again, err)
		}
	}
}
