// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/internal/agent/store"
)

// decided returns a node without a connection whose owner has decided about the pod p.
func decided(t *testing.T, changes ...change) *world {
	t.Helper()
	w := newWorld(t, daemonPod("p", changes...), daemonPod("q"))
	w.down = true
	if got := w.ask("POST", keepPath, ""); got.code != 202 {
		t.Fatalf("the decision is answered %+v", got)
	}
	return w
}

func (w *world) pod(name string) *corev1.Pod {
	return w.pods[types.NamespacedName{Namespace: "default", Name: name}]
}

// decision is what the API says of the decision about the pod p.
func (w *world) decision() (d v2.Decision, ok bool) {
	w.t.Helper()
	got := w.ask("GET", deedPath, "")
	if got.code == 404 {
		return d, false
	}
	if err := json.Unmarshal([]byte(got.body), &d); err != nil || got.code != 200 {
		w.t.Fatalf("%+v %v", got, err)
	}
	return d, true
}

func (w *world) carryOut() { w.api.CarryOut(w.t.Context()) }

func TestADecisionSurvivesARestartAndIsCarriedOutOnce(t *testing.T) {
	w := decided(t)
	w.carryOut()
	w.begin(func(*Options) {})
	w.carryOut()
	if d, ok := w.decision(); !ok || d.State != v2.DecisionPending || d.Revision != "r2" || d.UID != "uid-p" || len(w.deleted) > 0 {
		t.Fatalf("without a connection it is %+v %v, deleted are %q", d, ok, w.deleted)
	}
	w.down = false
	w.carryOut()
	if _, ok := w.decision(); ok || strings.Join(w.deleted, " ") != "uid-p" {
		t.Fatalf("with a connection it is still there: %v, deleted are %q", ok, w.deleted)
	}
	// Its successor needs an upgrade too, in time; nobody has decided about that one.
	w.pods[types.NamespacedName{Namespace: "default", Name: "p"}] = daemonPod("p", func(pod *corev1.Pod) { pod.UID = "uid-p2" })
	w.begin(func(*Options) {})
	w.carryOut()
	if strings.Join(w.deleted, " ") != "uid-p" {
		t.Errorf("deleted are %q", w.deleted)
	}
	if len(w.told) != 1 || !strings.Contains(w.told[0], "Normal NodeUpgradeStarted p: The owner of node n1 has decided to upgrade the pod to revision r2") {
		t.Errorf("told is %q", w.told)
	}
}

// forgetful is a disk whose owner is killed between the delete and the note that it was done.
type forgetful struct{ *store.Store }

func (f forgetful) Forget(v2.Decision) error { return errors.New("killed") }

func TestACrashAfterTheDeleteDoesNotDeleteTheSuccessor(t *testing.T) {
	for name, successor := range map[string]*corev1.Pod{
		"it goes still":        daemonPod("p", deleting),
		"it is gone":           nil,
		"its successor is old": daemonPod("p", func(pod *corev1.Pod) { pod.UID = "uid-p2" }),
	} {
		t.Run(name, func(t *testing.T) {
			w := decided(t)
			w.begin(func(o *Options) { o.Decisions = forgetful{w.store} })
			w.down = false
			w.carryOut()
			if strings.Join(w.deleted, " ") != "uid-p" {
				t.Fatalf("deleted are %q", w.deleted)
			}
			if successor != nil {
				w.pods[nameOf(successor)] = successor
			}
			w.begin(func(*Options) {})
			if _, ok := w.decision(); !ok {
				t.Fatal("the decision was noted as done")
			}
			w.carryOut()
			if _, ok := w.decision(); ok || strings.Join(w.deleted, " ") != "uid-p" {
				t.Errorf("it is still there: %v, deleted are %q", ok, w.deleted)
			}
		})
	}
}

func TestDecisionsThatAreVoid(t *testing.T) {
	for _, row := range []struct {
		name   string
		change change
		want   string
	}{
		{"there is a newer revision", needUpgrade(corev1.ConditionTrue, "controllerrevision: r3"), "the next revision of the pod is r3 now"},
		{"there is a newer revision, and images of the one before are asked for", func(pod *corev1.Pod) {
			imageReady(corev1.ConditionFalse, "", "controllerrevision: r2")(pod)
			needUpgrade(corev1.ConditionTrue, "controllerrevision: r3")(pod)
		}, "the next revision of the pod is r3 now"},
		{"the template was rolled back", needUpgrade(corev1.ConditionFalse, "controllerrevision: r1"), "update status is False"},
		{"the images have failed", imageReady(corev1.ConditionFalse, "PullImageFail", "pull image job x failed"), "image is not ready, reason: PullImageFail"},
		{"it belongs to nobody any more", ownedByNobody, "Pod has no owner references"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := decided(t)
			row.change(w.pod("p"))
			w.down = false
			w.carryOut()
			w.carryOut()
			d, ok := w.decision()
			if !ok || d.State != v2.DecisionVoid || !strings.Contains(d.Message, row.want) || len(w.deleted) > 0 {
				t.Errorf("it is %+v, deleted are %q", d, w.deleted)
			}
			if len(w.told) != 1 || !strings.Contains(w.told[0], "Warning NodeUpgradeVoid p: The decision to upgrade the pod to revision r2 is void: ") {
				t.Errorf("told is %q", w.told)
			}
			// What was true once does not make it valid again: the owner has to say so.
			w.pods[types.NamespacedName{Namespace: "default", Name: "p"}] = daemonPod("p")
			w.carryOut()
			if len(w.deleted) > 0 {
				t.Errorf("deleted are %q", w.deleted)
			}
			if got := w.ask("POST", keepPath, ""); got.code != 202 {
				t.Fatalf("a new decision is answered %+v", got)
			}
			w.carryOut()
			if strings.Join(w.deleted, " ") != "uid-p" {
				t.Errorf("deleted are %q", w.deleted)
			}
		})
	}
}

func TestADecisionWaitsForImages(t *testing.T) {
	w := decided(t, imageReady(corev1.ConditionFalse, "", "controllerrevision: r2"))
	w.down = false
	w.carryOut()
	if d, ok := w.decision(); !ok || d.State != v2.DecisionPending || !strings.Contains(d.Message, "image is not ready") || len(w.deleted) > 0 {
		t.Fatalf("it is %+v, deleted are %q", d, w.deleted)
	}
	imageReady(corev1.ConditionTrue, "PullImageSuccess", "controllerrevision: r2")(w.pod("p"))
	w.carryOut()
	if _, ok := w.decision(); ok || strings.Join(w.deleted, " ") != "uid-p" {
		t.Errorf("deleted are %q", w.deleted)
	}
}

func TestAnAPIServerThatFailsIsAskedAgain(t *testing.T) {
	for _, method := range []string{"Pod", "Newest", "DeletePod"} {
		w := decided(t)
		w.down, w.fail[method] = false, errors.New("boom")
		if again := w.api.CarryOut(t.Context()); again != pendingInterval {
			t.Errorf("%s: it looks again after %v", method, again)
		}
		if _, ok := w.decision(); !ok || len(w.deleted) > 0 {
			t.Errorf("%s: it is gone", method)
		}
		w.fail = map[string]error{}
		if w.carryOut(); strings.Join(w.deleted, " ") != "uid-p" {
			t.Errorf("%s: deleted are %q", method, w.deleted)
		}
	}
}

// The pod learns of a newer revision between the look at it and the delete.
type changing struct{ *world }

func (c changing) DeletePod(ctx context.Context, name types.NamespacedName, only metav1.Preconditions) error {
	needUpgrade(corev1.ConditionTrue, "controllerrevision: r3")(c.pods[name])
	c.pods[name].ResourceVersion = "8"
	return c.world.DeletePod(ctx, name, only)
}

func TestADecisionIsForItsRevisionOnly(t *testing.T) {
	w := decided(t)
	w.down, w.api.o.Cluster = false, changing{w}
	w.carryOut()
	w.carryOut()
	if d, ok := w.decision(); !ok || d.State != v2.DecisionVoid || len(w.deleted) > 0 {
		t.Errorf("it is %+v, deleted are %q", d, w.deleted)
	}
}

// Who tells pods of newer revisions may have been down when there was one: its successor would have that one.
func TestADecisionIsForItsRevisionAlone(t *testing.T) {
	for _, row := range []struct {
		name, newest, want string
		change             change
	}{
		{"there is a newer revision", "r3", "the next revision of the pod is r3 now", func(*corev1.Pod) {}},
		{"the template was rolled back", "r1", "the next revision of the pod is r1 now", func(*corev1.Pod) {}},
		{"there is a newer revision, and images of the one before are asked for", "r3", "the next revision of the pod is r3 now",
			imageReady(corev1.ConditionFalse, "", "controllerrevision: r2")},
		{"there is none any more", "", "the set of the pod has no revision now", func(*corev1.Pod) {}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := decided(t)
			row.change(w.pod("p"))
			w.down, w.newest = false, &row.newest
			w.carryOut()
			w.carryOut()
			d, ok := w.decision()
			if !ok || d.State != v2.DecisionVoid || d.Message != row.want || len(w.deleted) > 0 {
				t.Errorf("it is %+v, deleted are %q", d, w.deleted)
			}
			if len(w.told) != 1 || !strings.Contains(w.told[0], "Warning NodeUpgradeVoid p: The decision to upgrade the pod to revision r2 is void: "+row.want) {
				t.Errorf("told is %q", w.told)
			}
		})
	}
}

// A pod that says nothing was compared with the newest revision already.
func TestTheNewestRevisionIsAskedForOnce(t *testing.T) {
	w := newWorld(t, daemonPod("p", silent, ownedBy("apps.kruise.io/v1beta1", "DaemonSet")))
	w.next = "r2"
	if got := w.ask("POST", keepPath, ""); got.code != 202 {
		t.Fatalf("the decision is answered %+v", got)
	}
	w.asked = nil
	if w.carryOut(); strings.Join(w.asked, " ") != "Pod NextAdvanced DeletePod" {
		t.Errorf("asked is %q", w.asked)
	}
}

func TestDecisionsCanBeWithdrawn(t *testing.T) {
	w := decided(t)
	if got := w.ask("DELETE", deedPath, ""); got.code != 200 || !strings.Contains(got.body, `"revision":"r2","state":"Pending"`) {
		t.Errorf("it is answered %+v", got)
	}
	w.begin(func(*Options) {})
	w.down = false
	w.carryOut()
	if _, ok := w.decision(); ok || len(w.deleted) > 0 {
		t.Errorf("deleted are %q", w.deleted)
	}
}

func TestWhoeverDecidesTwiceHasDecidedOnce(t *testing.T) {
	w := decided(t)
	first, _ := w.decision()
	w.now = w.now.Add(1000)
	w.ask("POST", keepPath, "")
	if second, _ := w.decision(); second != first {
		t.Errorf("it was %+v, and is %+v", first, second)
	}
	if got := w.ask("GET", podPath, ""); !strings.Contains(got.body, `"decision":{`) {
		t.Errorf("the pod is %s", got.body)
	}
}

func TestNobodyIsAskedWithoutADecision(t *testing.T) {
	w := newWorld(t, daemonPod("p"))
	w.asked = nil
	if again := w.api.CarryOut(t.Context()); again != 0 || len(w.asked) > 0 {
		t.Errorf("it asks %q, and again after %v", w.asked, again)
	}
}

func TestRunCarriesOutWhatIsDecided(t *testing.T) {
	w := newWorld(t, daemonPod("p"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	told := make(chan string, 1)
	w.api.o.Event = func(_ *corev1.Pod, _, reason, _ string) { told <- reason }
	go func() {
		defer close(done)
		w.api.Run(ctx)
	}()
	if got := w.ask("POST", keepPath, ""); got.code != 202 {
		t.Fatalf("it is answered %+v", got)
	}
	if reason := <-told; reason != ReasonUpgradeStarted {
		t.Errorf("told is %s", reason)
	}
	cancel()
	<-done
}
