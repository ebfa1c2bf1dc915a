// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// A webhook may take many seconds until a write takes effect. What was written is judged by what the controller could know when the API server received the request.
// Of a create the pod shows that: its time is set before any webhook validates it. Of a delete only the audit log does (Rules.Received).

// Deletes are when the API server received the deletes of pods by managers that it has carried out, or for which it may have.
func Deletes(writes []Write) map[types.UID]time.Time {
	received, carriedOut := map[types.UID]time.Time{}, map[types.UID]bool{}
	for _, w := range writes {
		if w.Manager == "" || w.Verb != "delete" || w.Resource != "pods" || w.UID == "" || carriedOut[w.UID] || !w.done() && w.Code != 0 && w.Code != http.StatusGatewayTimeout {
			continue
		}
		received[w.UID], carriedOut[w.UID] = w.Sent, w.done()
	}
	return received
}

// decided is when the controller can have decided at the latest what an event shows of a pod: when the API server received the create, or the delete, if that took
// effect much later, and else the time of the event.
func (w *world) decided(event Event, old, pod *corev1.Pod) time.Time {
	received := pod.CreationTimestamp.Time
	if old != nil {
		received = time.Time{}
		if old.DeletionTimestamp == nil && (event.Type == watch.Deleted || pod.DeletionTimestamp != nil) {
			received = w.rules.Received[pod.UID]
		}
	}
	if received.IsZero() || event.At.Sub(received) <= certain {
		return event.At
	}
	return received
}

// closed is a version of a set on which the controller did not act any more since a moment.
type closed struct {
	version *Advanced
	at      time.Time
}

// openAt are the versions of the set that the controller may have been acting on at that time, or later.
func (l *limits) openAt(at time.Time) []*Advanced {
	var open []*Advanced
	for _, c := range l.closed {
		if c.at.After(at) {
			open = append(open, c.version)
		}
	}
	return append(open, l.open...)
}
