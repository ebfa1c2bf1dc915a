// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestEventsAreLimitedByReason, before they are made: what follows the creates of many pods is told all the same.
func TestEventsAreLimitedByReason(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	made := record.NewFakeRecorder(1000)
	s := newSparing(made, now)
	set := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "1"}}
	another := set.DeepCopy()
	another.UID = "2"
	count := func() int {
		n := len(made.Events)
		for range n {
			<-made.Events
		}
		return n
	}
	const many = 100
	for range many {
		s.Eventf(set, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %s", "p")
	}
	if n := count(); n != eventBurst {
		t.Errorf("%d events were made of %d: %d were to be expected", n, many, eventBurst)
	}
	s.Event(set, corev1.EventTypeWarning, "FailedCreate", "no")
	s.AnnotatedEventf(set, nil, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %s", "p")
	s.Event(another, corev1.EventTypeNormal, "SuccessfulCreate", "p")
	s.Event(set, corev1.EventTypeNormal, "SuccessfulCreate", "one too many")
	if n := count(); n != 3 {
		t.Errorf("%d events were made of two other reasons and another object: 3 were to be expected", n)
	}
	now.SetTime(now.Now().Add(5*time.Minute + time.Second))
	for range many {
		s.Event(set, corev1.EventTypeNormal, "SuccessfulCreate", "again")
	}
	if n := count(); n != 1 {
		t.Errorf("%d events were made after five minutes: one was to be expected", n)
	}
}

// TestBroadcasterTellsEachReason, also when there were many of another.
func TestBroadcasterTellsEachReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := newEvents()
		told := map[string]int{}
		sink := sinkFunc(func(e *corev1.Event) { told[e.Reason]++ })
		watch := events.StartRecordingToSink(sink)
		recorder := newSparing(events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "c"}), clock.RealClock{})
		set := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "1"}}
		for i := range 40 {
			recorder.Event(set, corev1.EventTypeNormal, "SuccessfulCreate", fmt.Sprint(i))
			synctest.Wait()
		}
		recorder.Event(set, corev1.EventTypeNormal, "SuccessfulDelete", "p")
		synctest.Wait()
		watch.Stop()
		events.Shutdown()
		synctest.Wait()
		// Ten of one reason within ten minutes become one that is counted, which is an event all the same.
		if want := map[string]int{"SuccessfulCreate": eventBurst, "SuccessfulDelete": 1}; !maps.Equal(told, want) {
			t.Errorf("told were %v: %v was to be expected", told, want)
		}
	})
}

type sinkFunc func(*corev1.Event)

func (f sinkFunc) Create(e *corev1.Event) (*corev1.Event, error) { f(e); return e, nil }
func (f sinkFunc) Update(e *corev1.Event) (*corev1.Event, error) { f(e); return e, nil }
func (f sinkFunc) Patch(e *corev1.Event, _ []byte) (*corev1.Event, error) {
	f(e)
	return e, nil
}

// TestEventsAreCounted: also those that are not sent.
func TestEventsAreCounted(t *testing.T) {
	counted := map[string]int{}
	sent := record.NewFakeRecorder(4 * eventBurst)
	recorder := counting{newSparing(sent, clock.RealClock{}), func(reason string) { counted[reason]++ }}
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
	for range 2 * eventBurst {
		recorder.Event(object, corev1.EventTypeNormal, "One", "text")
		recorder.Eventf(object, corev1.EventTypeNormal, "Two", "text %d", 1)
	}
	if counted["One"] != 2*eventBurst || counted["Two"] != 2*eventBurst || len(sent.Events) != 2*eventBurst {
		t.Errorf("counted %v, and %d were sent", counted, len(sent.Events))
	}
}
