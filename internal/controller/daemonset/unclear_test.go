// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/rollout"
)

// come runs one pass, which must not ask to be repeated at once, and says what it created.
func (w *world) come(after string) []string {
	w.t.Helper()
	w.forgetLog()
	again, err := w.c.Reconcile(w.t.Context(), w.key)
	if err != nil || again < 100*time.Millisecond {
		w.t.Errorf("%s: come back after %v, error %v", after, again, err)
	}
	return w.wrote("create")
}

// Writes whose answers are not clear hold back what depends on them, and nothing else, however many they are. What cannot be known yet is not
// asked for again and again.
func TestUnclearWritesDoNotHoldUpTheSet(t *testing.T) {
	t.Run("creates", func(t *testing.T) {
		w := newWorld(t, 400, nil)
		until := rollout.Time(w.clock.Now().Add(5 * time.Second).UnixNano())
		for i := range 300 {
			w.index.Resolve(inflight.Write{Verb: inflight.Create, Set: w.key, Node: fmt.Sprintf("n%d", i+1), Pod: fmt.Sprintf("pod%d", i+1), Until: until}, inflight.Unclear)
		}
		if got := w.come("300 creates are not clear"); len(got) != 100 {
			t.Errorf("%d creates on the 100 other nodes", len(got))
		}
		w.clock.Step(5 * time.Second)
		w.settle()
		if len(w.pods) != 400 {
			t.Errorf("%d pods in the end", len(w.pods))
		}
	})
	t.Run("changes", func(t *testing.T) {
		w := newWorld(t, 400, nil)
		w.settle()
		names := slices.Sorted(maps.Keys(w.pods))
		for _, name := range names[:300] {
			w.index.Resolve(inflight.Write{Verb: inflight.Edit, UID: w.pods[name].UID, Until: rollout.Time(w.clock.Now().Add(5 * time.Second).UnixNano()), Takes: true}, inflight.Unclear)
		}
		w.gone(names[399])
		if got := w.come("300 changes are not clear"); len(got) != 1 {
			t.Errorf("creates %v instead of the pod that is gone", got)
		}
		w.clock.Step(5 * time.Second)
		w.settle()
		if got := w.index.Ownership(w.key, 0).Doubts; len(got) != 0 {
			t.Errorf("%d doubts are left", len(got))
		}
	})
}

// A pod that has lost its owner and is on its way out has the name that the set wants. Nothing tells the set when it is gone, so it comes back by itself.
func TestComesBackToANodeWhereAPodIsInTheWay(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.before = func(verb, name string) error {
		if verb == "create" && w.pods[name] == nil {
			w.pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: name, UID: "another", ResourceVersion: w.next(), Labels: map[string]string{"app": "x"},
				DeletionTimestamp: &metav1.Time{Time: w.clock.Now()},
			}}
		}
		return nil
	}
	after := w.passDue()
	if after <= 0 || after > time.Minute {
		t.Fatalf("it comes back after %v", after)
	}
	w.before = nil
	clear(w.pods)
	w.clock.Step(after)
	w.mustPass()
	if len(w.pods) != 1 {
		t.Errorf("%d pods, want 1", len(w.pods))
	}
}

// The same pod, gone before anybody could look at it: it was not the set's, so nothing tells the set.
func TestComesBackToANodeWhereAPodWasInTheWay(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.before = func(verb, name string) error {
		if verb != "create" {
			return nil
		}
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "pods"}, name)
	}
	if err := w.pass(); err == nil || !strings.Contains(err.Error(), w.wrote("create")[0]) {
		t.Fatalf("error %v, want one that names the pod, and for which the pass is repeated with a delay", err)
	}
	w.before = nil
	w.mustPass()
	if len(w.pods) != 1 {
		t.Errorf("%d pods, want 1", len(w.pods))
	}
}
