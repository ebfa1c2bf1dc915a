// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
)

// crashing makes the pods with an image crash, and all others ready.
func (w *world) crashing(image string) {
	w.kubelet = func(p *corev1.Pod) bool {
		if len(p.Status.ContainerStatuses) > 0 || p.Status.Phase == corev1.PodRunning {
			return false
		}
		rec, _ := w.index.PodFrom(p)
		p.Spec.NodeName, p.Status.Phase = rec.Node, corev1.PodRunning
		ready := corev1.ConditionTrue
		if p.Spec.Containers[0].Image == image {
			ready = corev1.ConditionFalse
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				RestartCount: 4, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			}}
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(w.clock.Now())}}
		return true
	}
}

// judgedWorld is governedWorld with a policy that undoes a revision that fails on one node.
func judgedWorld(t *testing.T) (*world, *rules) {
	t.Helper()
	w, r := governedWorld(t)
	p := canaryPolicy()
	p.Spec.Waves[0].After = nil
	p.Spec.Failure = &v1alpha1.Failure{Action: v1alpha1.FailureUndo}
	r.Policies = []*policy.Policy{policy.Read(p)}
	w.crashing("img:bad")
	w.edit("img:bad")
	return w, r
}

// settleAndWait is settle with time in between.
func (w *world) settleAndWait() {
	w.t.Helper()
	for range 4 {
		w.settle()
		w.clock.Step(5 * time.Second)
	}
	w.settle()
}

// A revision that crashes on the canary is undone everywhere, and the template stays. The status speaks of the template, and the pods of the committed
// revision do not claim to be of the newest generation. So it is for the next leader, and a fix is rolled out.
func TestABadRevisionIsUndone(t *testing.T) {
	w, r := judgedWorld(t)
	w.settleAndWait()
	check := func(when string) {
		t.Helper()
		if got := r.last(); got.Phase != v1alpha1.PhaseFailed || got.RejectedRevision != got.TargetRevision || len(w.images("img:v1")) != 4 {
			t.Fatalf("%s: %+v, %v", when, got, w.images("img:v1"))
		}
		if n := w.status("updatedNumberScheduled"); n != 0 {
			t.Errorf("%s: the status counts %d updated nodes", when, n)
		}
	}
	check("undone")
	if created := w.wrote("create"); len(created) != 6 { // four, the bad one, and the one in its place
		t.Errorf("pods were created: %v", created)
	}
	for _, p := range w.pods {
		if p.Spec.NodeName == "n1" && p.Labels["pod-template-generation"] != "" {
			t.Errorf("the pod of the committed revision has generation %s", p.Labels["pod-template-generation"])
		}
	}
	owned, _ := w.index.History(w.key)
	if f := owned[len(owned)-1].Failed; f == nil || !f.Undo || f.Wave != "canary" || !strings.Contains(f.Message, "CrashLoopBackOff") {
		t.Errorf("the mark is %+v", f)
	}
	w.c.states = map[clustercache.Key]*state{} // another leader, which has lost the status as well
	r.Stored = nil
	w.settleAndWait()
	check("by the next leader")
	w.edit("img:v3")
	w.settleAndWait()
	if got := r.last(); got.Phase != v1alpha1.PhaseComplete || len(w.images("img:v3")) != 4 {
		t.Fatalf("%+v, %v", got, w.images("img:v3"))
	}
}

// If the mark cannot be written, the undo takes place all the same.
func TestUndoWithoutAMark(t *testing.T) {
	w, r := judgedWorld(t)
	w.before = func(verb, name string) error {
		if verb == "patch-revision" {
			return errors.New("a webhook is down")
		}
		return nil
	}
	for range 40 {
		w.deliver()
		_ = w.pass()
		w.kubelets()
		w.clock.Step(time.Second)
	}
	if got := r.last(); got.Phase != v1alpha1.PhaseFailed || len(w.images("img:v1")) != 4 {
		t.Fatalf("%+v, %v", got, w.images("img:v1"))
	}
	w.before = nil
	w.settleAndWait()
	owned, _ := w.index.History(w.key)
	if owned[len(owned)-1].Failed == nil {
		t.Error("the mark is missing")
	}
}

// A copy of the mark on another revision, or with the annotations of the set, does not count.
func TestCopiedFailure(t *testing.T) {
	w, r := judgedWorld(t)
	w.settleAndWait()
	owned, _ := w.index.History(w.key)
	mark := everynode.FormatFailed(*owned[len(owned)-1].Failed, string(owned[len(owned)-1].UID))
	annotations := w.set.GetAnnotations()
	annotations[everynode.Failed] = mark
	w.set.SetAnnotations(annotations)
	w.edit("img:v3")
	w.settleAndWait()
	if got := r.last(); got.Phase != v1alpha1.PhaseComplete || len(w.images("img:v3")) != 4 {
		t.Fatalf("%+v, %v", got, w.images("img:v3"))
	}
}

// TestAFailureThatIsStoredNowhere: if both the mark of the revision and the status of the policy are refused, the next leader knows nothing of the failure. It starts
// the revision again, on the nodes of the first wave only, and undoes it again.
func TestAFailureThatIsStoredNowhere(t *testing.T) {
	w, r := judgedWorld(t)
	w.before = func(verb, name string) error {
		if verb == "patch-revision" && strings.Contains(name, w.newestRevision()) {
			return errors.New("a webhook is down")
		}
		return nil
	}
	bad := map[string]bool{}
	lasts := func() {
		for range 60 {
			w.deliver()
			_ = w.pass()
			w.kubelets()
			for _, p := range w.pods {
				if p.Spec.Containers[0].Image == "img:bad" {
					bad[p.Spec.NodeName] = true
				}
			}
			w.clock.Step(time.Second)
		}
	}
	for leader := range 3 {
		clear(bad)
		lasts()
		if got := r.last(); got.Phase != v1alpha1.PhaseFailed || len(w.images("img:v1")) != 4 {
			t.Fatalf("leader %d: %+v, %v", leader, got, w.images("img:v1"))
		}
		if len(bad) != 1 || !bad["n1"] {
			t.Errorf("leader %d: the revision ran on %v, want the first wave", leader, bad)
		}
		w.c.states = map[clustercache.Key]*state{}
		r.Stored, r.Remembered = nil, nil
	}
}

// newestRevision is the name of the revision with the highest number.
func (w *world) newestRevision() (name string) {
	highest := int64(-1)
	for _, revision := range w.revisions {
		if revision.Revision > highest {
			highest, name = revision.Revision, revision.Name
		}
	}
	return name
}
