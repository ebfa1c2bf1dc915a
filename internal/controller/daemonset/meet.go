// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/clustercache/informers"
)

// slowMeeting is how long the reads of a new set may take before its namespace counts as slow: for slowShare times as long as they took, or for slowFor. Reads that are fast end
// that no earlier, because another set of the namespace may select fewer pods. meetingPause is when a set of such a namespace tries again.
const (
	slowMeeting  = time.Second
	slowShare    = 30
	meetingPause = time.Second
)

// meetings are the reads of new sets (meet), and of histories that other controllers write (readHistory). They take long where a namespace has very many pods or revisions
// that its sets select, and its users can make new sets and revisions again and again: so where they were slow, one worker at a time makes them, and of all such namespaces
// together no more than half of the workers.
type meetings struct {
	mu sync.Mutex
	// underWay are how many are being made in a namespace, and slow is until when it counts as slow.
	underWay map[string]int
	slow     map[string]time.Time
}

// begin reports whether a set of a namespace may read now. most is how many may do so in slow namespaces.
func (m *meetings) begin(namespace string, most int, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.slow, func(_ string, until time.Time) bool { return !now.Before(until) })
	if _, slow := m.slow[namespace]; slow {
		all := 0
		for other, n := range m.underWay {
			if _, slow := m.slow[other]; slow {
				all += n
			}
		}
		if m.underWay[namespace] > 0 || all >= most {
			return false
		}
	}
	if m.underWay == nil {
		m.underWay, m.slow = map[string]int{}, map[string]time.Time{}
	}
	m.underWay[namespace]++
	return true
}

// end ends what begin has begun.
func (m *meetings) end(namespace string, began, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.underWay[namespace]--; m.underWay[namespace] == 0 {
		delete(m.underWay, namespace)
	}
	if took := now.Sub(began); took >= slowMeeting {
		m.slow[namespace] = now.Add(min(slowShare*took, slowFor))
	}
}

// meet reads from the API server itself what a new set may find: pods and revisions whose last owner was deleted a moment ago, so
// that they can be adopted. The watches may not show that yet, for each goes at its own pace, and pods would be created next to
// those that run. again is when to come back, if other sets of the namespace read theirs.
func (p *pass) meet(ctx context.Context) (again time.Duration, err error) {
	most, began := max(p.c.Workers/2, 1), p.c.Clock.Now()
	if !p.c.meetings.begin(p.w.Namespace, most, began) {
		return meetingPause, nil
	}
	defer func() { p.c.meetings.end(p.w.Namespace, began, p.c.Clock.Now()) }()
	return 0, p.readAll(ctx)
}

// readAll reads the pods and revisions that the set selects.
func (p *pass) readAll(ctx context.Context) error {
	err := p.c.Executor.Pods.List(ctx, p.w.Namespace, p.w.Selector, func(pod *corev1.Pod) {
		if rec, ours := p.c.Index.PodFrom(pod); ours {
			p.c.Index.ObservePod(rec)
		}
	})
	if err != nil {
		return fmt.Errorf("reading the pods that a new set selects: %w", err)
	}
	if err := p.c.Executor.Pace.Throttle(ctx); err != nil {
		return err
	}
	err = p.c.Revisions.List(ctx, p.w.Namespace, p.w.Selector, func(r *appsv1.ControllerRevision) {
		if rec, ours := informers.RevisionFrom(r); ours {
			p.c.Index.ObserveRevision(rec)
		}
	})
	if err != nil {
		return fmt.Errorf("reading the revisions that a new set selects: %w", err)
	}
	p.state.young = false
	return nil
}
