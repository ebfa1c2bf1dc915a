// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/policy"
)

// noticePatience is how long a notice waits for the status of its policy at most.
const noticePatience = 10 * time.Second

// waiting is a notice that has not been sent.
type waiting struct {
	policy.Notice
	since time.Time
}

// Notify implements daemonset.Notices. A notice is sent when the status that it is about has been written: a process that ends in between leaves a status from
// which the next one makes the same notice, with the same identity. If the status cannot be written, the notice does not wait for long.
func (s *Store) Notify(notices []policy.Notice) {
	now := s.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range notices {
		name := types.NamespacedName{Namespace: notices[i].Set.Namespace, Name: notices[i].Policy}
		if e := s.policies.get(name); e != nil {
			e.notices = append(e.notices, waiting{notices[i], now})
			s.queue.AddAfter(name, 20*time.Millisecond)
		}
	}
}

// waitingNotices is how many notices of a policy wait.
func (s *Store) waitingNotices(of types.NamespacedName) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.policies.get(of); e != nil {
		return len(e.notices)
	}
	return 0
}

// release sends the first n notices of a policy if what they are about is written, and those that have waited for too long.
func (s *Store) release(ctx context.Context, of types.NamespacedName, n int, written bool) {
	s.mu.Lock()
	e := s.policies.get(of)
	if e == nil {
		s.mu.Unlock()
		return
	}
	var due []policy.Notice
	for len(e.notices) > 0 && (written && len(due) < n || s.Clock.Since(e.notices[0].since) >= noticePatience) {
		due, e.notices = append(due, e.notices[0].Notice), e.notices[1:]
	}
	if len(e.notices) > 0 {
		s.queue.AddAfter(of, noticePatience)
	}
	s.mu.Unlock()
	if len(due) > 0 {
		s.Send(ctx, due)
	}
}
