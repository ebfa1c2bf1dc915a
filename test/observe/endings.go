// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Ending is when a ledger has observed that a pod started to terminate, or was removed without that.
type Ending struct {
	Pod string
	UID types.UID
	At  time.Time
}

// Endings returns the endings of all pods of the namespace, in order.
func (l *Ledger) Endings() []Ending {
	l.mu.Lock()
	defer l.mu.Unlock()
	return endingsOf(l.log, l.from)
}

func endingsOf(log []Event, from uint64) []Ending {
	var all []Ending
	ended := map[types.UID]bool{}
	for _, event := range log {
		pod, isPod := event.Object.(*corev1.Pod)
		if !isPod || ended[pod.UID] || event.Type != watch.Deleted && pod.DeletionTimestamp == nil {
			continue
		}
		ended[pod.UID] = true
		if event.Version > from {
			all = append(all, Ending{Pod: pod.Name, UID: pod.UID, At: event.At})
		}
	}
	return all
}

// dying is how long before its end an API server may have passed a delete to its store without logging it, and how far
// a ledger may be behind, on an overloaded machine.
const dying = 5 * time.Second

// judgeEndings looks for the delete of each pod that ended. An API server that is killed after it has passed the delete
// to its store does not log it: only then may there be none, and these are counted.
func (j *writeJudge) judgeEndings(writes []Write) {
	deletes := map[string][]Write{}
	for _, w := range writes {
		if w.Verb == "delete" && w.Resource == "pods" && w.Namespace == j.rules.Namespace && w.mayBeDone() {
			deletes[w.Name] = append(deletes[w.Name], w)
		}
	}
	for _, e := range j.rules.Endings {
		switch {
		case slices.ContainsFunc(deletes[e.Pod], e.by):
		case slices.ContainsFunc(j.rules.Outages, func(at time.Time) bool { return e.At.Sub(at).Abs() < dying }):
			j.report.Unlogged++
		default:
			j.report.Violations = append(j.report.Violations, fmt.Sprintf("%s: pod %s ended at %s, and the audit log has no delete of it",
				Logged, e.Pod, e.At.Format("15:04:05.000")))
		}
	}
}

// by reports whether a delete with this name may have ended a pod. One without a UID may be for an earlier pod with
// this name.
func (e Ending) by(w Write) bool {
	if w.UID != "" {
		return w.UID == e.UID && w.Sent.Before(e.At)
	}
	return w.Sent.Before(e.At) && e.At.Sub(w.Done) < inFlight
}

// mayBeDone reports whether the API server has executed a write, or has not reported that it has not.
func (w Write) mayBeDone() bool { return w.done() || w.Code < 200 || w.Code >= 500 }
