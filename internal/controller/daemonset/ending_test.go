// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/clustercache"
)

// end stops the manager for good, and returns what End returns.
func (w *world) end(ctx context.Context) chan []Unfinished {
	e, left := w.c.beginEnding(), make(chan []Unfinished, 1)
	go func() { left <- e.await(ctx) }()
	return left
}

// closed are the pods with a closed gate.
func (a *advanced) closed() (names []string) {
	for name, p := range a.pods {
		if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return (c.Type == api.InPlaceUpdateReady || c.Type == api.KruisePodReady) && c.Status == corev1.ConditionFalse
		}) {
			names = append(names, name)
		}
	}
	return names
}

func want(t *testing.T, left chan []Unfinished, n int) []Unfinished {
	t.Helper()
	select {
	case got := <-left:
		if len(got) != n {
			t.Fatalf("left %v, want %d", got, n)
		}
		return got
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
		return nil
	}
}

// TestEndingCallsOffWhatHasNotBegun: a pod that waits for its grace period gets its gate opened, and keeps its image; the update does not go on.
func TestEndingCallsOffWhatHasNotBegun(t *testing.T) {
	a := newAdvanced(t, 3, inPlace)
	a.graceOf("600")
	a.settle()
	a.image("img:v2")
	a.mustPass()
	if len(a.closed()) != 1 {
		t.Fatalf("%v are closed, want one", a.closed())
	}
	a.forgetLog()
	left := a.end(t.Context())
	a.settle()
	want(t, left, 0)
	for name, p := range a.pods {
		if p.Spec.Containers[0].Image != "img:v1" || stateOf(p, corev1.PodReady) != corev1.ConditionTrue {
			t.Errorf("%s has %s, conditions %v", name, p.Spec.Containers[0].Image, p.Status.Conditions)
		}
	}
	if len(a.closed()) != 0 || len(a.log) == 0 || len(a.wrote("patch"))+len(a.wrote("delete")) > 0 {
		t.Errorf("closed %v, log %v", a.closed(), a.log)
	}
}

// TestEndingWaitsForTheNode: a pod that has been changed gets its gate opened when its node runs the change, and End names it until then.
func TestEndingWaitsForTheNode(t *testing.T) {
	a := newAdvanced(t, 3, inPlace)
	a.settle()
	a.image("img:v2")
	a.idle = func(*corev1.Pod) bool { return true }
	a.mustPass()
	if len(a.closed()) != 1 {
		t.Fatalf("%v are closed, want one", a.closed())
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := a.end(ctx)
	a.mustPass()
	cancel()
	got := want(t, left, 1)
	if text := got[0].String(); len(got[0].Nodes) != 1 || !strings.Contains(text, "ns/ds: n") || !strings.HasSuffix(text, ": wait-in-place") {
		t.Errorf("left %q", text)
	}
	left = a.end(t.Context())
	a.mustPass()
	select {
	case got := <-left:
		t.Fatalf("it ends with %v, and the node has not done anything", got)
	default:
	}
	a.idle = func(*corev1.Pod) bool { return false }
	a.settle()
	want(t, left, 0)
	changed := 0
	for _, p := range a.pods {
		if p.Spec.Containers[0].Image == "img:v2" {
			changed++
		}
	}
	if len(a.closed()) != 0 || changed != 1 {
		t.Errorf("closed %v, %d changed", a.closed(), changed)
	}
}

// TestEndingRestoresWhatWaitsForItsHook and starts nothing else.
func TestEndingRestoresWhatWaitsForItsHook(t *testing.T) {
	a := newAdvanced(t, 2, preDeleteNotReady)
	a.settle()
	a.image("img:v2")
	a.settle()
	if len(a.closed()) != 1 || len(a.preparing()) != 1 {
		t.Fatalf("closed %v", a.closed())
	}
	left := a.end(t.Context())
	a.settle()
	want(t, left, 0)
	if len(a.closed()) != 0 || len(a.preparing()) != 0 || len(a.wrote("delete")) != 0 || len(a.pods) != 2 {
		t.Errorf("closed %v, prepared %d, log %v", a.closed(), len(a.preparing()), a.log)
	}
}

// TestEndingCreatesTheSuccessor of a pod that an update has deleted before.
func TestEndingCreatesTheSuccessor(t *testing.T) {
	a := newAdvanced(t, 2, standard)
	a.settle()
	a.image("img:v2")
	a.mustPass()
	if len(a.wrote("delete")) != 1 {
		t.Fatalf("log %v", a.log)
	}
	left := a.end(t.Context())
	a.mustPass()
	select {
	case got := <-left:
		t.Fatalf("it ends with %v, and a node has no pod", got)
	default:
	}
	a.settle()
	want(t, left, 0)
	if len(a.pods) != 2 || len(a.wrote("delete")) != 1 {
		t.Errorf("%d pods, log %v", len(a.pods), a.log)
	}
}

// TestEndingOfSetsThatAreNotDecided: another controller works, its passes fail, or the set goes.
func TestEndingOfSetsThatAreNotDecided(t *testing.T) {
	a := newAdvanced(t, 1, inPlace)
	a.settle()
	a.mayWrite = false
	left := a.end(t.Context())
	a.mustPass()
	want(t, left, 0)

	e := a.c.beginEnding()
	e.passed(a.key, true)
	if all, looked := e.unfinished(); len(all) != 1 || len(all[0].Nodes) != 0 || looked {
		t.Errorf("after a pass that failed %v are left", all)
	}
	a.index.DeleteSet(a.key)
	a.mustPass()
	if all, looked := e.unfinished(); len(all) != 0 || !looked {
		t.Errorf("without the set %v are left", all)
	}
}

func TestUnfinishedText(t *testing.T) {
	u := Unfinished{Set: clustercache.Key{Dialect: "kruise", Namespace: "ns", Name: "ds"}}
	if got := u.String(); !strings.HasSuffix(got, "ns/ds: not looked at yet") {
		t.Errorf("got %q", got)
	}
	for i := range maxListed + 2 {
		u.Nodes = append(u.Nodes, fmt.Sprintf("n%d: wait-in-place", i))
	}
	if got := u.String(); !strings.HasSuffix(got, "n19: wait-in-place and 2 more") {
		t.Errorf("got %q", got)
	}
}
