// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// TestUpTo: a ledger of a restored store begins with the log up to the moment of the copy, and with no other.
func TestUpTo(t *testing.T) {
	event := func(kind watch.EventType, uid string, version uint64) Event {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: strconv.FormatUint(version, 10)}}
		return Event{Version: version, Type: kind, Object: pod}
	}
	log := []Event{
		event(watch.Added, "a", 3), event(watch.Added, "b", 4), event(watch.Modified, "a", 5), event(watch.Deleted, "b", 6), event(watch.Added, "c", 7),
	}
	for name, c := range map[string]struct {
		version uint64
		stored  map[types.UID]string
		events  int
	}{
		"before a change":           {version: 4, stored: map[types.UID]string{"a": "3", "b": "4"}, events: 2},
		"after a deletion":          {version: 6, stored: map[types.UID]string{"a": "5"}, events: 4},
		"another version is stored": {version: 6, stored: map[types.UID]string{"a": "3"}},
		"an object is missing":      {version: 5, stored: map[types.UID]string{"a": "5"}},
		"an object is too many":     {version: 6, stored: map[types.UID]string{"a": "5", "c": "6"}},
		"nothing was lost":          {version: 7, stored: map[types.UID]string{"a": "5", "c": "7"}},
	} {
		part, err := upTo(log, c.version, c.stored)
		if len(part) != c.events || (err == nil) != (c.events > 0) {
			t.Errorf("%s: %d events, %v; want %d", name, len(part), err, c.events)
		}
	}
}

// TestObservedTooMuch: a controller that has not detected a restore yet may write that it has observed a generation which the set does not have any more.
func TestObservedTooMuch(t *testing.T) {
	l := newLimits()
	for _, observed := range []int64{3, 2} {
		set := &Advanced{DaemonSet: &appsv1.DaemonSet{}}
		set.Generation, set.Status.ObservedGeneration = 2, observed
		if l.learn(set, time.Time{}); len(l.open) != 1 || l.open[0] != set {
			t.Errorf("after generation %d was observed, the controller may act on %v", observed, l.open)
		}
	}
}
