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

// For each object and reason, eventBurst events are sent immediately, and then eventsPerSecond. These are client-go's
// values, but client-go counts all reasons of an object together: after the create events of 25 pods, no other event
// would be sent.
const (
	eventBurst      = 25
	eventsPerSecond = 1. / 300
	eventSubjects   = 4096 // objects and reasons to remember, as in client-go
)

// newEvents returns a broadcaster that limits events by object, type and reason.
func newEvents() record.EventBroadcaster {
	return record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{
		BurstSize: eventBurst, QPS: eventsPerSecond,
		SpamKeyFunc: func(e *corev1.Event) string {
			return strings.Join([]string{e.Source.Component, string(e.InvolvedObject.UID), e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Type, e.Reason}, "/")
		},
	})
}

// sparing drops the events that the broadcaster would drop, before they are created. A rollout has two events for each
// node, and the broadcaster encodes each as JSON to compare it with the last one before it counts it.
type sparing struct {
	record.EventRecorder
	clock clock.PassiveClock

	mu     sync.Mutex
	limits *lru.Cache
}

func newSparing(r record.EventRecorder, c clock.PassiveClock) *sparing {
	return &sparing{EventRecorder: r, clock: c, limits: lru.New(eventSubjects)}
}

// subject is the key by which events are counted.
type subject struct {
	uid                           types.UID
	namespace, name, kind, reason string
}

// wanted reports whether an event about the object is sent. Events about objects without an identity always are.
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

// counting counts the events of Event and Eventf, also those that are not sent.
type counting struct {
	record.EventRecorder
	count func(reason string)
}

// Event implements record.EventRecorder.
func (c counting) Event(object runtime.Object, kind, reason, message string) {
	c.count(reason)
	c.EventRecorder.Event(object, kind, reason, message)
}

// Eventf implements record.EventRecorder.
func (c counting) Eventf(object runtime.Object, kind, reason, format string, args ...any) { //nolint:revive // client-go sets the parameters
	c.count(reason)
	c.EventRecorder.Eventf(object, kind, reason, format, args...)
}
