// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/clustercache"
)

func TestSlowStartStopsAtARefusal(t *testing.T) {
	w := newWorld(t, 50, nil)
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("exceeded quota"))
	w.before = func(verb, _ string) error {
		if verb == "create" {
			return quota
		}
		return nil
	}
	if err := w.pass(); !apierrors.IsForbidden(err) {
		t.Fatalf("error %v, want the refusal", err)
	}
	if got := w.wrote("create"); len(got) != 1 {
		t.Errorf("%d creates, want 1", len(got))
	}
	if got := w.status("desiredNumberScheduled"); got != 50 {
		t.Errorf("the status has to be written although the pass failed: desired %d", got)
	}
}

// TestCreatesBeginWithWhatWentWell before, of the same generation.
func TestCreatesBeginWithWhatWentWell(t *testing.T) {
	w := newWorld(t, 20, nil)
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("exceeded quota"))
	full := false
	w.before = func(verb, _ string) error {
		if verb == "create" && full {
			return quota
		}
		return nil
	}
	creates := func() int {
		t.Helper()
		w.forgetLog()
		full = true
		defer func() { full = false }()
		if err := w.pass(); !apierrors.IsForbidden(err) {
			t.Fatalf("error %v, want the refusal", err)
		}
		return len(w.wrote("create"))
	}
	lose := func(pods int) {
		for name := range w.pods {
			if pods--; pods < 0 {
				return
			}
			w.gone(name)
		}
	}
	w.settle()
	lose(18)
	if n := creates(); n != 16 {
		t.Errorf("%d creates after 20 went well, in batches of 1, 2, 4, 8 and 5: want 16, and nothing more after they were refused", n)
	}
	if n := creates(); n != 2 {
		t.Errorf("%d creates, which are refused, of 2 on nodes that were not tried before: want them all", n)
	}
	w.settle()
	lose(10)
	w.edit("img:v2")
	if n := creates(); n != 1 {
		t.Errorf("%d creates of a template of which nobody knows whether it is refused, want 1", n)
	}
}

// TestCreatesThatAreLeftShowNothing: a pass that has stopped because other sets wait is no reason to begin the next one with a single create.
func TestCreatesThatAreLeftShowNothing(t *testing.T) {
	w := newWorld(t, 100, nil)
	w.c.queue.Add(clustercache.Key{Dialect: "native", Namespace: "ns", Name: "another"})
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("exceeded quota"))
	full := false
	w.before = func(verb, _ string) error {
		if verb != "create" {
			return nil
		}
		w.clock.Step(100 * time.Millisecond)
		if full {
			return quota
		}
		return nil
	}
	after, err := w.c.Reconcile(t.Context(), w.key)
	if err != nil {
		t.Fatal(err)
	}
	if after <= 0 || after > time.Second/10 {
		t.Errorf("it comes back for what it has left after %v, want at once", after)
	}
	// 1, 2 and 4, and of the next 8 what begins in the second that a pass has.
	if n := len(w.wrote("create")); n < 8 || n > 15 {
		t.Fatalf("%d creates in the first pass", n)
	}
	w.forgetLog()
	full = true
	if err := w.pass(); !apierrors.IsForbidden(err) {
		t.Fatalf("error %v, want the refusal", err)
	}
	if n := len(w.wrote("create")); n != firstOfMany {
		t.Errorf("the next pass begins with %d creates, want %d", n, firstOfMany)
	}
}
