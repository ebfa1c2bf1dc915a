// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
)

// Rest is a moment at which a controller had enough time for all earlier events: up to this version of the store, there
// is nothing left to do.
type Rest struct {
	Version uint64
	At      time.Time
}

// Quiet returns the time since the last event of a pod, a set or a revision of the namespace.
func (l *Ledger) Quiet() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, event := range slices.Backward(l.log) {
		if _, isNode := event.Object.(*corev1.Node); !isNode {
			return time.Since(event.At)
		}
	}
	return 0
}

// Rest records such a moment for every set of the namespace.
func (l *Ledger) Rest(ctx context.Context) error {
	answer, err := l.client.Get(ctx, registry, clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("asking the store how far it is: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rests = append(l.rests, Rest{Version: uint64(answer.Header.Revision), At: time.Now()})
	return nil
}

// number is a number in a status.
type number struct {
	name  string
	value int64
}

// said returns the numbers in the status of the set.
func (w *world) said() []number {
	s := w.set.Status
	return []number{
		{"observedGeneration", s.ObservedGeneration}, {"desiredNumberScheduled", int64(s.DesiredNumberScheduled)},
		{"currentNumberScheduled", int64(s.CurrentNumberScheduled)}, {"numberMisscheduled", int64(s.NumberMisscheduled)},
		{"numberReady", int64(s.NumberReady)}, {"updatedNumberScheduled", int64(s.UpdatedNumberScheduled)},
		{"numberAvailable", int64(s.NumberAvailable)}, {"numberUnavailable", int64(s.NumberUnavailable)},
	}
}

// recount computes these numbers, in the same order: the oldest pod of a node counts.
func (w *world) recount(at time.Time) []int64 {
	minReady := time.Duration(w.set.Spec.MinReadySeconds) * time.Second
	var desired, current, misscheduled, ready, updated, available int64
	for name := range w.nodes {
		pod := w.oldest(name)
		switch {
		case !w.eligible[name] && pod != nil:
			misscheduled++
		case w.eligible[name]:
			desired++
		}
		if !w.eligible[name] || pod == nil {
			continue
		}
		current++
		if hashOf(pod) == w.newest {
			updated++
		}
		since, isReady := readySince(pod)
		if !isReady || changing(pod) {
			continue
		}
		ready++
		if !since.Add(minReady).After(at) {
			available++
		}
	}
	return []int64{w.set.Generation, desired, current, misscheduled, ready, updated, available, desired - available}
}

// oldest returns the oldest pod of the set on a node, or nil; a bound pod comes before one that is not bound.
func (w *world) oldest(node string) *corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range w.pods {
		if NodeOf(pod) == node && w.ours(pod) && occupies(pod) {
			pods = append(pods, pod)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	unbound := func(pod *corev1.Pod) int { return 1 - min(1, len(pod.Spec.NodeName)) }
	return slices.MinFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(unbound(a)-unbound(b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}

// judgeRests checks the status at the moments before a version.
func (w *world) judgeRests(before uint64) {
	for len(w.rests) > 0 && w.rests[0].Version < before {
		rest := w.rests[0]
		w.rests = w.rests[1:]
		if w.set == nil {
			continue
		}
		w.report.Rests++
		counted := w.recount(rest.At)
		for i, number := range w.said() {
			if number.value != counted[i] {
				w.violate(Status, w.last, fmt.Sprintf("%s is %d at rest, and it should be %d", number.name, number.value, counted[i]))
			}
		}
	}
}
