// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/clustercache"
)

// TestALostAnswerToAPatch shows that nothing is done on top of a patch whose answer was lost, and that it is not taken for arrived. Of one that has
// changed the pod nobody is told; one that has marked it is followed by the one that changes it.
func TestALostAnswerToAPatch(t *testing.T) {
	for verb, told := range map[string]int{"patch": 0, "patch-status": 1} {
		a := newAdvanced(t, 1, inPlace)
		a.settle()
		p := a.only()
		a.allEvents()
		a.image("img:v2")
		a.watch = false
		a.fail(verb, errors.New("connection reset by peer"), true)
		if err := a.pass(); err == nil {
			t.Fatal("a lost answer has to fail the pass")
		}
		a.after = nil
		sent := len(a.wrote("patch")) + len(a.wrote("patch-status"))
		for range 3 {
			a.mustPass()
			if len(a.wrote("patch"))+len(a.wrote("patch-status")) != sent || stateOf(a.only(), api.InPlaceUpdateReady) != corev1.ConditionFalse {
				t.Fatalf("%s: something was done although the first one may still take effect: %v", verb, a.log)
			}
		}
		a.watch = true
		a.settle()
		a.wantPod("img:v2", p)
		if got := a.wrote("patch"); len(got) != 1 {
			t.Errorf("%s: patches %v", verb, got)
		}
		if events := a.allEvents(); strings.Count(events, "SuccessfulUpdatePodInPlace") != told {
			t.Errorf("%s: events:\n%s", verb, events)
		}
	}
}

func templateLabels(spec map[string]any) map[string]any {
	return spec["template"].(map[string]any)["metadata"].(map[string]any)["labels"].(map[string]any)
}

// TestAPatchStartsFromWhatThePodIs goes on from a patch whose answer was lost, with another template, on a view that knows of neither: as soon
// as it is clear what has become of the first.
func TestAPatchStartsFromWhatThePodIs(t *testing.T) {
	a := newAdvanced(t, 1, inPlace)
	a.settle()
	p := a.only()
	a.watch = false
	a.fail("patch", errors.New("connection reset by peer"), true)
	a.change(func(spec map[string]any) { templateLabels(spec)["second"] = "x" })
	if err := a.pass(); err == nil || a.only().Labels["second"] != "x" {
		t.Fatalf("error %v, labels %v", err, a.only().Labels)
	}
	a.after = nil
	a.change(func(spec map[string]any) {
		delete(templateLabels(spec), "second")
		templateLabels(spec)["third"] = "x"
	})
	a.mustPass()
	if _, early := a.only().Labels["third"]; early {
		t.Error("changed again although the first change may still take effect")
	}
	a.clock.Step(5 * time.Second)
	a.mustPass()
	if _, left := a.only().Labels["second"]; left || a.only().Labels["third"] != "x" {
		t.Errorf("labels %v", a.only().Labels)
	}
	a.watch = true
	a.settle()
	a.wantPod("img:v1", p)
	if a.made != 1 {
		t.Errorf("%d containers were made; labels restart none", a.made)
	}
}

// TestAPatchThatMayStillTakeEffectKeepsTheGateClosed undoes a change in place of which nobody knows whether it has taken effect, or will: the pod
// would be changed while it is in use.
func TestAPatchThatMayStillTakeEffectKeepsTheGateClosed(t *testing.T) {
	a := newAdvanced(t, 1, inPlace)
	a.settle()
	a.image("img:v2")
	a.fail("patch", errors.New("connection reset by peer"), false)
	if err := a.pass(); err == nil || stateOf(a.only(), api.InPlaceUpdateReady) != corev1.ConditionFalse {
		t.Fatalf("error %v, the gate %s", err, stateOf(a.only(), api.InPlaceUpdateReady))
	}
	a.before = nil
	a.image("img:v1")
	a.mustPass()
	if stateOf(a.only(), api.InPlaceUpdateReady) != corev1.ConditionFalse {
		t.Error("the gate is open, and the patch may still take effect")
	}
	a.clock.Step(5 * time.Second)
	a.mustPass()
	if stateOf(a.only(), api.InPlaceUpdateReady) != corev1.ConditionTrue {
		t.Error("the gate is closed when that is over")
	}
}

// TestAGateThatMayStillOpenKeepsThePodAsItIs has a gate opened without an answer, and the next change follow at once: the pod would be put into
// use before its node runs that.
func TestAGateThatMayStillOpenKeepsThePodAsItIs(t *testing.T) {
	a := newAdvanced(t, 1, inPlace)
	a.settle()
	a.image("img:v2")
	a.mustPass()
	a.kubelets()
	a.fail("patch-status", errors.New("connection reset by peer"), false)
	if err := a.pass(); err == nil || a.only().Spec.Containers[0].Image != "img:v2" {
		t.Fatalf("error %v, image %s", err, a.only().Spec.Containers[0].Image)
	}
	a.before = nil
	a.image("img:v3")
	a.mustPass()
	if image := a.only().Spec.Containers[0].Image; image != "img:v2" {
		t.Errorf("changed to %s while the gate may still open", image)
	}
	a.clock.Step(5 * time.Second)
	a.mustPass()
	if image := a.only().Spec.Containers[0].Image; image != "img:v3" {
		t.Errorf("image %s when that is over", image)
	}
}

// TestAGateThatIsSeenToBeOpenFreesItsSlot loses the answer to the opening of a gate that took effect: the next pod need not wait until that is
// certain.
func TestAGateThatIsSeenToBeOpenFreesItsSlot(t *testing.T) {
	a := newAdvanced(t, 2, inPlace)
	a.settle()
	a.image("img:v2")
	a.mustPass()
	a.kubelets()
	a.forgetLog()
	a.fail("patch-status", errors.New("connection reset by peer"), true)
	if err := a.pass(); err == nil {
		t.Fatal("a lost answer has to fail the pass")
	}
	a.after = nil
	a.kubelets()
	a.mustPass()
	if got := a.wrote("patch"); len(got) != 1 {
		t.Errorf("patches %v: the next pod waits although the first one is in use again", got)
	}
}

// TestAMarkWhoseAnswerWasLostKeepsItsSlot takes the node of an unclear mark out of the update: the next one has to wait all the same, until
// the mark has not taken effect for certain.
func TestAMarkWhoseAnswerWasLostKeepsItsSlot(t *testing.T) {
	for _, took := range []bool{true, false} {
		a := newAdvanced(t, 2, inPlace)
		a.settle()
		a.watch = false
		a.forgetLog()
		a.image("img:v2")
		a.fail("patch-status", errors.New("connection reset by peer"), took)
		if err := a.pass(); err == nil {
			t.Fatal("a lost answer has to fail the pass")
		}
		first := a.wrote("patch-status")
		a.before, a.after = nil, nil
		a.change(func(spec map[string]any) { // the first node in order is the last one by name
			rolling := spec["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any)
			rolling["selector"] = map[string]any{"matchLabels": map[string]any{"chosen": "yes"}}
		})
		a.index.PutNode(clustercache.Node{Name: "n1", RV: a.next(), Ready: true, Labels: map[string]string{"chosen": "yes"}})
		a.mustPass()
		if got := a.wrote("patch-status"); len(first) != 1 || !slices.Equal(got, first) {
			t.Fatalf("took effect %v: marked %v, then %v: the slot of the first was given away", took, first, got)
		}
		a.watch = true
		a.clock.Step(time.Minute)
		a.mustPass()
		got := a.wrote("patch-status")
		if took && len(got) != 1 || !took && len(got) != 2 {
			t.Errorf("took effect %v: marked %v when that was clear", took, got)
		}
	}
}
