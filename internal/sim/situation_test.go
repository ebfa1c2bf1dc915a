// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/openyurt"
)

// situation is what a run has come to, in words: two runs with the same words go on in the same ways, as far as this simulation can tell. Times count
// by what is left of them.
func (s *sim) situation() string {
	var b strings.Builder
	for _, p := range s.w.pods() {
		b.WriteString(podWords(p))
	}
	fmt.Fprintln(&b, len(s.w.state[ofRevisions]), setWords(s.w.set()), s.down, s.doubled)
	for _, z := range s.stragglers {
		fmt.Fprintln(&b, z.text, s.left(z.until))
	}
	if s.lead != nil {
		s.lead.situation(&b)
	}
	return b.String()
}

// left is how long it is until a time, 0 when it is over.
func (s *sim) left(until time.Time) time.Duration { return max(0, until.Sub(s.w.now)) }

// podWords are all of a pod that makes a difference to what can become of it.
func podWords(p *corev1.Pod) string {
	ready, _ := readyOf(p)
	return fmt.Sprintln(p.UID, imageOf(p), runs(p), p.Status.Phase, ready, p.DeletionTimestamp != nil, p.Spec.NodeName, p.Labels[appsv1.ControllerRevisionHashLabelKey],
		preparing(p), p.Labels[blockLabel], p.Annotations[api.InPlaceUpdateState] != "",
		conditionOf(p, api.InPlaceUpdateReady), conditionOf(p, api.KruisePodReady), conditionOf(p, openyurt.PodNeedUpgrade))
}

func setWords(set *unstructured.Unstructured) string {
	seen, _, _ := unstructured.NestedInt64(set.Object, "status", "observedGeneration")
	return words("%d %d %s %s", set.GetGeneration(), seen, imageOfSet(set), numbersOf(set.Object))
}

// situation is what a manager is at, what it knows, what its views have still to show, and what its index and its limits make of the answers that it had.
func (m *manager) situation(b *strings.Builder) {
	fmt.Fprintln(b, m.running, m.due(), m.failures, m.wake.IsZero(), m.s.left(m.wake), m.s.left(m.fence), m.pace.Window(), m.known.wroteNow())
	for _, r := range m.waiting() {
		fmt.Fprintln(b, r.text)
		if n, err := numbersIn(r.action.image); r.action.verb == "status" && err == nil {
			fmt.Fprintln(b, n)
		}
	}
	m.known.situation(b)
	if m.running {
		m.known.then.situation(b)
	}
	for k := range kinds {
		if m.seen[k] < 0 {
			continue
		}
		fmt.Fprintln(b, k)
		for _, e := range m.s.w.logs[k][m.seen[k]:] {
			m.known.toCome(b, e)
		}
	}
	if w := m.index.Workload(m.key); w != nil {
		fmt.Fprintln(b, w.Generation, w.ObservedGeneration, w.Status)
	}
	m.openWrites(b)
}

func (k known) situation(b *strings.Builder) {
	for _, uid := range slices.Sorted(maps.Keys(k.pods)) {
		b.WriteString(podWords(k.pods[uid]))
	}
	fmt.Fprintln(b, slices.Sorted(maps.Keys(k.doomed)), len(k.nodes))
	if k.set != nil {
		b.WriteString(setWords(k.set))
	}
}

// toCome is an event that a view has still to show; one of a pod may be news, or tell nothing that is not known already.
func (k *knowledge) toCome(b *strings.Builder, e event) {
	switch o := e.object.(type) {
	case *corev1.Pod:
		last := k.pods[o.UID]
		late := k.buried[o.UID] || e.rv <= k.vacant[o.Name] || last != nil && e.rv <= versionOf(last)
		fmt.Fprintln(b, podWords(o), e.gone, late)
	case *unstructured.Unstructured:
		fmt.Fprintln(b, setWords(o), e.gone)
	default:
		fmt.Fprintln(b, o.GetName(), e.gone)
	}
}

// wroteNow is how many statuses were written so short a time ago that the next one may have to wait for that.
func (k *knowledge) wroteNow() int {
	count := 0
	for _, at := range k.wrote {
		if k.s.w.now.Sub(at) < time.Second {
			count++
		}
	}
	return count
}

// openWrites are those that have no clear answer, as the index has them.
func (m *manager) openWrites(b *strings.Builder) {
	left := func(until int64) time.Duration { return m.s.left(time.Unix(0, until)) }
	claims := m.index.Ownership(m.key, 0)
	for _, p := range claims.Unsettled {
		fmt.Fprintln(b, "unsettled", p.UID, left(int64(p.Until)))
	}
	for _, c := range claims.Pending {
		fmt.Fprintln(b, "pending", c.Node, c.Pod, left(int64(c.Until)))
	}
	for _, d := range claims.Doubts {
		fmt.Fprintln(b, "doubt", d.Pod.UID, left(int64(d.Until)))
	}
}
