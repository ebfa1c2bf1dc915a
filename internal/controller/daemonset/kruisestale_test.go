// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "everynode.dev/everynode/api/kruise"
)

// TestALostAnswerToAPatch shows that a patch whose answer was lost is not taken for arrived when it is repeated on a stale view.
func TestALostAnswerToAPatch(t *testing.T) {
	for _, verb := range []string{"patch", "patch-status"} {
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
		for range 3 {
			a.mustPass()
			if stateOf(a.only(), api.InPlaceUpdateReady) != corev1.ConditionFalse {
				t.Fatalf("%s: the gate was opened before the node ran the change", verb)
			}
		}
		if got := a.wrote("patch"); len(got) != 1 {
			t.Errorf("%s: patches %v", verb, got)
		}
		if events := a.allEvents(); strings.Count(events, "SuccessfulUpdatePodInPlace") != 1 {
			t.Errorf("%s: events:\n%s", verb, events)
		}
		a.watch = true
		a.settle()
		a.wantPod("img:v2", p)
	}
}

func templateLabels(spec map[string]any) map[string]any {
	return spec["template"].(map[string]any)["metadata"].(map[string]any)["labels"].(map[string]any)
}

// TestAPatchStartsFromWhatThePodIs goes on from a patch whose answer was lost, with another template, on a view that knows of
// neither.
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
