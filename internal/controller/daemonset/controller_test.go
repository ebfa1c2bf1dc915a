// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
)

func TestCreatesOnePodPerNodeAndReportsIt(t *testing.T) {
	w := newWorld(t, 5, nil)
	w.settle()
	if got := len(w.wrote("create")); got != 5 || len(w.pods) != 5 {
		t.Fatalf("%d creates, %d pods, want 5 of each", got, len(w.pods))
	}
	for _, field := range []string{"desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable"} {
		if got := w.status(field); got != 5 {
			t.Errorf("status.%s = %d, want 5", field, got)
		}
	}
	if len(w.revisions) != 1 {
		t.Fatalf("%d revisions, want 1", len(w.revisions))
	}
	for _, p := range w.pods {
		if p.GenerateName != "ds-" || p.Labels["pod-template-generation"] != "1" || p.Labels["controller-revision-hash"] == "" {
			t.Errorf("pod %s: generateName %q, labels %v", p.Name, p.GenerateName, p.Labels)
		}
	}
	if events := w.allEvents(); strings.Count(events, "Normal SuccessfulCreate Created pod: ds-") != 5 {
		t.Errorf("events:\n%s", events)
	}
}

func TestAPassOnAStaleViewWritesNothingTwice(t *testing.T) {
	w := newWorld(t, 8, nil)
	w.watch = false // no watch event ever arrives
	w.mustPass()
	w.mustPass()
	w.mustPass()
	if got := w.wrote("create"); len(got) != 8 {
		t.Errorf("creates: %v", got)
	}
	if got := w.wrote("create-revision"); len(got) != 1 {
		t.Errorf("revisions created: %v", got)
	}
}

func TestACreateWhoseAnswerWasLostIsTakenForDone(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.watch = false
	lost := errors.New("read tcp: connection reset by peer")
	w.after = func(verb, _ string) error {
		if verb == "create" {
			return lost
		}
		return nil
	}
	if err := w.pass(); !errors.Is(err, lost) {
		t.Fatalf("first pass: %v, want the lost answer", err)
	}
	w.after = nil
	w.mustPass()
	w.mustPass()
	if got := w.wrote("create"); len(got) != 1 || len(w.pods) != 1 {
		t.Errorf("creates %v, pods %d: the pod has to be found", got, len(w.pods))
	}
}

// The template changes while it is not known whether a pod of the old one was created: no pod of the new one may join it.
func TestAnUnclearCreateIsClearedUpBeforeAnotherOne(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.watch = false
	unclear := func(verb, _ string) error {
		if verb == "create" {
			return errors.New("read tcp: connection reset by peer")
		}
		return nil
	}
	w.after = unclear
	if err := w.pass(); err == nil {
		t.Fatal("an unclear create has to fail the pass")
	}
	w.after = nil
	w.edit("img:v2")
	w.mustPass()
	if len(w.pods) != 1 {
		t.Fatalf("%d pods on one node", len(w.pods))
	}

	// The same, but the API server is still at work on the create when it is looked for.
	w = newWorld(t, 1, nil)
	w.watch = false
	w.before = unclear
	if err := w.pass(); err == nil {
		t.Fatal("an unclear create has to fail the pass")
	}
	w.before = nil
	w.edit("img:v2")
	w.mustPass()
	if len(w.pods) != 0 {
		t.Fatalf("a second create while the first could still take effect: %v", w.log)
	}
	w.clock.Step(executor.Fence)
	w.mustPass()
	w.mustPass()
	if len(w.pods) != 1 {
		t.Errorf("%d pods after the first create cannot take effect any more", len(w.pods))
	}
}

// A create without an answer has taken effect, somebody deletes that pod at once, and only then the watch shows how it came: the successor that
// the node has meanwhile is not one pod too many.
func TestLateNewsOfAPodThatNobodyHasSeenAlive(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.watch = false
	w.after = func(verb, _ string) error {
		if verb == "create" {
			return errors.New("read tcp: connection reset by peer")
		}
		return nil
	}
	if err := w.pass(); err == nil {
		t.Fatal("an unclear create has to fail the pass")
	}
	w.after = nil
	var unseen *corev1.Pod
	for name, p := range w.pods {
		unseen = p.DeepCopy()
		delete(w.pods, name)
		w.next()
	}
	w.clock.Step(executor.Fence)
	w.edit("img:v2")
	w.mustPass()
	if got := w.wrote("create"); len(got) != 2 || len(w.pods) != 1 {
		t.Fatalf("creates %v, pods %d: the node has to get another pod", got, len(w.pods))
	}
	w.seePod(unseen)
	w.mustPass()
	if got := w.wrote("delete"); len(got) != 0 {
		t.Errorf("deletes %v, although the node has one pod", got)
	}
}

// A webhook may refuse with the code of a failed precondition, or as if there were no such pod.
func TestARefusalInDisguiseLeavesThePodAlive(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, refusal := range map[string]error{
		"conflict":  apierrors.NewConflict(pods, "x", errors.New("webhook says no")),
		"not found": apierrors.NewNotFound(pods, "x"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			w.settle()
			w.edit("img:v2")
			w.before = func(verb, _ string) error {
				if verb == "delete" {
					return refusal
				}
				return nil
			}
			for range 3 {
				if err := w.pass(); !errors.Is(err, refusal) {
					t.Fatalf("error %v", err)
				}
				w.clock.Step(5 * time.Minute)
			}
			if len(w.pods) != 1 {
				t.Errorf("%d pods on one node", len(w.pods))
			}
		})
	}
}

// A write that another controller's arrival has overtaken is not sent.
func TestStopsInTheMiddleOfAPass(t *testing.T) {
	w := newWorld(t, 40, nil)
	w.after = func(verb, _ string) error {
		w.mayWrite = verb != "create"
		return nil
	}
	if err := w.pass(); err != nil {
		t.Fatal(err)
	}
	if got := w.wrote("create"); len(got) != 1 {
		t.Errorf("%d creates", len(got))
	}
}

func TestAPodInTheWayBlocksItsNodeOnly(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.before = func(verb, name string) error {
		// The names that are asked for first turn out to be taken by strangers: all eleven that one node may have.
		if uid := types.UID("stranger of " + name); verb == "create" && len(w.pods) < 11 {
			w.pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: uid, ResourceVersion: w.next()}}
		}
		return nil
	}
	w.mustPass()
	w.mustPass()
	if got := w.wrote("create"); len(got) != 12 {
		t.Fatalf("creates: %v, want eleven names for the one node, one for the other, and no more", got)
	}
	if events := w.allEvents(); !strings.Contains(events, "Warning FailedCreate Error creating: the pod name") ||
		!strings.Contains(events, "is taken by a pod that this daemon set does not control") {
		t.Errorf("events:\n%s", events)
	}
	w.clock.Step(time.Minute)
	w.mustPass()
	if got := w.wrote("create"); len(got) != 23 {
		t.Errorf("creates after the block has ended: %v", got)
	}
}

func TestANamespaceThatEndsIsNoError(t *testing.T) {
	w := newWorld(t, 3, nil)
	w.before = func(verb, _ string) error {
		if verb != "create" {
			return nil
		}
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("is being terminated"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return err
	}
	w.mustPass()
	if events := w.allEvents(); events != "" {
		t.Errorf("events: %s", events)
	}
}

func TestDeletesCarryTheUID(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.settle()
	w.edit("img:v2")
	var name string
	for name = range w.pods {
		w.pods[name].UID = "another" // replaced by somebody between our look and our delete
	}
	w.forgetLog()
	w.mustPass()
	if w.pods[name].DeletionTimestamp != nil {
		t.Error("a pod with another UID was deleted")
	}
}

func TestAdoptsAndReleases(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.addPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "orphan", Labels: map[string]string{"app": "x", "pod-template-generation": "1"}},
		Spec:       corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	})
	w.settle()
	if ref := metav1.GetControllerOf(w.pods["orphan"]); ref == nil || ref.UID != "set-uid" || ref.BlockOwnerDeletion == nil || !*ref.BlockOwnerDeletion {
		t.Fatalf("the orphan was not adopted: %v", w.pods["orphan"].OwnerReferences)
	}
	if got := w.wrote("create"); len(got) != 1 {
		t.Fatalf("creates %v: node n1 has a pod by adoption", got)
	}
	w.pods["orphan"].Labels = map[string]string{"app": "other"}
	w.changed(w.pods["orphan"])
	w.settle()
	if len(w.pods["orphan"].OwnerReferences) != 0 {
		t.Error("the pod that is not selected any more was not released")
	}
	if got := w.wrote("create"); len(got) != 2 {
		t.Errorf("creates %v: the released pod has to be replaced", got)
	}
}

func TestASetThatIsGoneMeanwhileAdoptsNothing(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.addPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orphan", Labels: map[string]string{"app": "x"}}, Spec: corev1.PodSpec{NodeName: "n1"}})
	w.set.SetUID("successor")
	if err := w.pass(); err == nil || len(w.pods["orphan"].OwnerReferences) != 0 {
		t.Errorf("error %v, owners %v", err, w.pods["orphan"].OwnerReferences)
	}
}

func TestTheStatusIsWrittenAlsoWhenAnAdoptionFails(t *testing.T) {
	w := newWorld(t, 3, nil)
	w.addPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orphan", Labels: map[string]string{"app": "x", "pod-template-generation": "1"}}, Spec: corev1.PodSpec{NodeName: "n1"}})
	w.before = func(verb, _ string) error {
		if verb == "patch" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "orphan", errors.New("webhook says no"))
		}
		return nil
	}
	if err := w.pass(); !apierrors.IsForbidden(err) {
		t.Fatalf("error %v", err)
	}
	if w.status("desiredNumberScheduled") != 3 || len(w.wrote("create")) != 2 {
		t.Errorf("status %v, creates %v: the numbers have to be right, and the node of the orphan waits", w.set.Object["status"], w.wrote("create"))
	}
	w.before = nil
	w.clock.Step(time.Minute)
	w.settle()
	if metav1.GetControllerOf(w.pods["orphan"]) == nil || len(w.pods) != 3 {
		t.Errorf("%d pods, and the orphan has no owner, although nothing stands against it any more", len(w.pods))
	}
}

func TestASetBeingDeletedIsLeftAlone(t *testing.T) {
	now := metav1.Now()
	w := newWorld(t, 3, func(ds *appsv1.DaemonSet) { ds.DeletionTimestamp, ds.Finalizers = &now, []string{"orphan"} })
	told := &forgetful{}
	w.c.Observer = told
	w.mustPass()
	if len(w.log) != 0 {
		t.Errorf("writes: %v", w.log)
	}
	if !slices.Equal(told.forgotten, []clustercache.Key{w.key}) {
		t.Errorf("forgotten %v: what was last observed of it would be told for as long as it is there", told.forgotten)
	}
}

// forgetful keeps which sets are gone, and which are not valid.
type forgetful struct {
	unobserved
	forgotten, refused []clustercache.Key
}

func (f *forgetful) Forgotten(key clustercache.Key) { f.forgotten = append(f.forgotten, key) }
func (f *forgetful) Refused(key clustercache.Key)   { f.refused = append(f.refused, key) }

// TestASetThatBecomesInvalidIsReported: otherwise a node that is held for the set stays held until its time has ended. It is not forgotten: its metrics stay, as its pods do.
func TestASetThatBecomesInvalidIsReported(t *testing.T) {
	a, seen := newAdvanced(t, 2, `{}`), &forgetful{}
	a.c.Observer = seen
	a.settle()
	if len(seen.refused) != 0 {
		t.Fatalf("refused %v before", seen.refused)
	}
	a.change(func(spec map[string]any) { spec["selector"] = "x" })
	a.mustPass()
	if !slices.Equal(seen.refused, []clustercache.Key{a.key}) || len(seen.forgotten) != 0 {
		t.Errorf("refused %v, forgotten %v", seen.refused, seen.forgotten)
	}
}

func TestWritesNothingWhileAnotherControllerIsAtWork(t *testing.T) {
	w := newWorld(t, 3, nil)
	w.mayWrite = false
	w.mustPass()
	if len(w.log) != 0 {
		t.Errorf("writes: %v", w.log)
	}
}

func TestSelectingAllIsRefusedOnce(t *testing.T) {
	w := newWorld(t, 2, func(ds *appsv1.DaemonSet) { ds.Spec.Selector = &metav1.LabelSelector{} })
	w.mustPass()
	w.mustPass()
	want := "Warning SelectingAll This daemon set is selecting all pods. A non-empty selector is required."
	if events := w.allEvents(); events != want || len(w.log) != 0 {
		t.Errorf("events %q, writes %v", events, w.log)
	}
}

func TestFailedPodEventComesAfterTheDelete(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.settle()
	w.allEvents()
	for _, p := range w.pods {
		p.Status.Phase = corev1.PodFailed
		w.changed(p)
	}
	w.before = func(verb, _ string) error {
		if verb == "delete" {
			return apierrors.NewTooManyRequests("busy", 1)
		}
		return nil
	}
	if err := w.pass(); err == nil {
		t.Fatal("a refused delete has to fail the pass")
	}
	if events := w.allEvents(); strings.Contains(events, "FailedDaemonPod") {
		t.Errorf("told before it was done:\n%s", events)
	}
	w.before = nil
	w.clock.Step(time.Minute)
	w.settle()
	if events := w.allEvents(); strings.Count(events, "Warning FailedDaemonPod Found failed daemon pod ns/ds-") != 1 {
		t.Errorf("events:\n%s", events)
	}
}

// Upstream's own test waits for the name of a failed pod to be gone.
func TestASuccessorOfTheSameRevisionHasAnotherName(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.settle()
	names := map[string]bool{}
	for range 3 {
		for name, p := range w.pods {
			if names[name] {
				t.Fatalf("the name %s came again", name)
			}
			names[name] = true
			p.Status.Phase = corev1.PodFailed
			w.changed(p)
		}
		w.clock.Step(time.Minute)
		w.settle()
	}
	if len(names) != 3 {
		t.Errorf("names %v", names)
	}
}

func TestForgetsASetThatIsGone(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.settle()
	w.index.DeleteSet(setKey)
	w.mustPass()
	if len(w.c.states) != 0 {
		t.Error("the state of a set that is gone is kept")
	}
}

func TestAnswersWithoutStatusAreUnclear(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.before = func(verb, _ string) error {
		if verb == "create" {
			return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError}}
		}
		return nil
	}
	if err := w.pass(); err == nil {
		t.Fatal("an error has to be reported")
	}
	w.before = nil
	w.clock.Step(executor.Fence)
	w.settle()
	if len(w.pods) != 1 {
		t.Errorf("%d pods", len(w.pods))
	}
}

func TestASetOfTheSameNameIsAnotherSet(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.settle()
	w.set.SetUID(types.UID("second"))
	w.seeSet()
	for _, r := range w.revisions {
		w.index.DropRevision(r.UID)
	}
	clear(w.revisions)
	w.forgetLog()
	w.mustPass()
	if got := w.wrote("create"); len(got) != 1 {
		t.Errorf("creates %v: the pod of the first set is not the second one's", got)
	}
}
