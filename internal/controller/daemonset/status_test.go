// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// flip makes a pod ready or not.
func (w *world) flip(p *corev1.Pod, status corev1.ConditionStatus) {
	p.Status.Conditions[0].Status = status
	w.changed(p)
}

// passDue makes one pass and returns when the next one is due.
func (w *world) passDue() time.Duration {
	w.t.Helper()
	after, err := w.c.Reconcile(context.Background(), setKey)
	if err != nil {
		w.t.Fatal(err)
	}
	return after
}

func TestStatusIsWrittenAtMostTwiceASecondButNeverForgotten(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.settle()
	w.clock.Step(time.Minute)
	w.forgetLog()
	states := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue}
	var wrote []time.Time
	for i := range 100 { // a pod that is ready every other 50 ms
		for _, p := range w.pods {
			w.flip(p, states[i%2])
		}
		before := len(w.wrote("status"))
		w.passDue()
		if len(w.wrote("status")) > before {
			wrote = append(wrote, w.clock.Now())
		}
		w.clock.Step(50 * time.Millisecond)
	}
	for i := 2; i < len(wrote); i++ {
		if took := wrote[i].Sub(wrote[i-2]); took < time.Second {
			t.Fatalf("three writes within %v", took)
		}
	}
	if len(wrote) < 5 {
		t.Errorf("%d writes in 5 seconds", len(wrote))
	}
	for _, p := range w.pods {
		w.flip(p, corev1.ConditionFalse)
	}
	for range 3 {
		if after := w.passDue(); after > 0 {
			w.clock.Step(after)
		}
	}
	if got := w.status("numberReady"); got != 0 {
		t.Errorf("numberReady %d, want 0: the last change was forgotten", got)
	}
}

// The numbers of the middle of a roll are put off, so that those of its end need not be.
func TestTheEndOfARollIsReportedAtOnce(t *testing.T) {
	w := newWorld(t, 10, nil)
	w.settle()
	w.clock.Step(time.Minute)
	w.edit("img:v2")
	w.forgetLog()
	writes := func() int { return len(w.wrote("status")) }
	w.passDue()
	if writes() != 1 {
		t.Fatalf("%d writes when there is a new template, want 1", writes())
	}
	for steps := 0; w.status("updatedNumberScheduled") < 10 || w.status("numberAvailable") < 10; steps++ {
		if steps > 100 {
			t.Fatal("the roll does not end")
		}
		w.kubelets()
		before := writes()
		w.passDue()
		done := true
		for _, p := range w.pods {
			done = done && p.DeletionTimestamp == nil && p.Spec.Containers[0].Image == "img:v2" && p.Status.Phase == corev1.PodRunning
		}
		if middle := writes() - before; !done && middle > 0 {
			t.Fatal("the numbers of the middle were written within the same moment")
		} else if done && len(w.pods) == 10 && middle != 1 {
			t.Fatal("the end of the roll was not told at once")
		}
	}
	if writes() != 2 {
		t.Errorf("%d writes within one moment, want 2", writes())
	}
}

// The status of a generation is written onto the version of the set that it was decided for. Who changes the set meanwhile delays it until the watch shows the change.
func TestStatusOfAnOutdatedVersion(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.settle()
	w.clock.Step(time.Minute)
	w.watch = false
	w.edit("img:v2")
	w.set.SetResourceVersion(w.next()) // and another client changes a field that no decision reads
	w.forgetLog()
	if after := w.passDue(); w.status("observedGeneration") != 1 || after <= 0 || after > statusWindow {
		t.Errorf("observed generation %d, the next pass in %v", w.status("observedGeneration"), after)
	}
	w.clock.Step(time.Minute)
	if _, err := w.c.Reconcile(context.Background(), setKey); !apierrors.IsConflict(err) {
		t.Errorf("the watch does not show the version, and the error is %v", err)
	}
	w.clock.Step(time.Minute)
	w.seeSet()
	if w.passDue(); w.status("observedGeneration") != 2 {
		t.Errorf("observed generation %d, want 2", w.status("observedGeneration"))
	}
}
