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

// Ending is the moment at which a ledger has seen a pod begin to terminate, or vanish without that.
type Ending struct {
	Pod string
	UID types.UID
	At  time.Time
}

// Endings are those of all pods of the namespace, in their order.
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

// dying is how long before its end an API server may have handed a delete to its store and not written it down, and how far a ledger may be behind,
// where a machine has too much to do.
const dying = 5 * time.Second

// judgeEndings looks for the delete that each pod has ended by. An API server that dies after it has handed the delete to its store writes no line of
// it: only then there may be none, and those are counted.
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

// by is whether a pod may have ended by a delete of its name. One without a UID may be that of another pod of this name, long before.
func (e Ending) by(w Write) bool {
	if w.UID != "" {
		return w.UID == e.UID && w.Sent.Before(e.At)
	}
	return w.Sent.Before(e.At) && e.At.Sub(w.Done) < inFlight
}

// mayBeDone is whether the API server has carried a write out, or has not said that it has not.
func (w Write) mayBeDone() bool { return w.done() || w.Code < 200 || w.Code >= 500 }
