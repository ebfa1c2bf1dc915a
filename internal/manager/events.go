// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// Of the events about one object with one reason, eventBurst are sent at once, and then eventsPerSecond. These are client-go's own numbers,
// but client-go counts reasons together: whatever comes after the creates of 25 pods would not be told.
const (
	eventBurst      = 25
	eventsPerSecond = 1. / 300
	eventSubjects   = 4096 // objects and reasons that are remembered, as in client-go
)

// newEvents is a broadcaster that counts events by object, type and reason.
func newEvents() record.EventBroadcaster {
	return record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{
		BurstSize: eventBurst, QPS: eventsPerSecond,
		SpamKeyFunc: func(e *corev1.Event) string {
			return strings.Join([]string{e.Source.Component, string(e.InvolvedObject.UID), e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Type, e.Reason}, "/")
		},
	})
}

// sparing leaves out the events that the broadcaster would leave out. It does so before they are made: a roll has two for each node, and
// the broadcaster compares each with the last one, by way of JSON, before it counts.
type sparing struct {
	record.EventRecorder
	clock clock.PassiveClock

	mu     sync.Mutex
	limits *lru.Cache
}

func newSparing(r record.EventRecorder, c clock.PassiveClock) *sparing {
	return &sparing{EventRecorder: r, clock: c, limits: lru.New(eventSubjects)}
}

// subject is what events are counted by.
type subject struct {
	uid                           types.UID
	namespace, name, kind, reason string
}

// wanted is whether an event about the object is to be made; those about what cannot be told apart are.
func (s *sparing) wanted(object runtime.Object, kind, reason string) bool {
	m, err := meta.Accessor(object)
	if err != nil {
		return true
	}
	of := subject{m.GetUID(), m.GetNamespace(), m.GetName(), kind, reason}
	s.mu.Lock()
	defer s.mu.Unlock()
	limit, known := s.limits.Get(of)
	if !known {
		limit = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(eventsPerSecond, eventBurst, s.clock)
		s.limits.Add(of, limit)
	}
	return limit.(flowcontrol.PassiveRateLimiter).TryAccept()
}

// Event implements record.EventRecorder.
func (s *sparing) Event(object runtime.Object, kind, reason, message string) {
	if s.wanted(object, kind, reason) {
		s.EventRecorder.Event(object, kind, reason, message)
	}
}

// Eventf implements record.EventRecorder.
func (s *sparing) Eventf(object runtime.Object, kind, reason, format string, args ...any) { //nolint:revive // client-go sets the parameters
	if s.wanted(object, kind, reason) {
		s.EventRecorder.Eventf(object, kind, reason, format, args...)
	}
}

// AnnotatedEventf implements record.EventRecorder.
func (s *sparing) AnnotatedEventf(object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) { //nolint:revive // client-go sets the parameters
	if s.wanted(object, kind, reason) {
		s.EventRecorder.AnnotatedEventf(object, annotations, kind, reason, format, args...)
	}
}
