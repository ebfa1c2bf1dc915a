// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/rollout"
)

// waitingWrite is a slow write that waits for its lease, and then for its answer. It returns until when the write was recorded as under way when it was sent, and when that was.
func waitingWrite(ctx context.Context, t *testing.T, e *Executor, waits time.Duration) (until, sent rollout.Time) {
	t.Helper()
	s := sender{Executor: e, key: setKey(0)}
	e.Slow.Hold = func(context.Context) error { time.Sleep(waits); return nil }
	var recorded rollout.Time
	s.sendSlowly(ctx, &slowWrite{
		verb: verbCreate, more: true, begun: func(at rollout.Time) { recorded = at }, done: func() {},
		send: func(context.Context) (*corev1.Pod, error) {
			until, sent = recorded, e.Pace.now()
			return &corev1.Pod{}, nil
		},
		meaning:  func(context.Context, error) (apply.Answer, error) { return apply.Done, nil },
		answered: func(context.Context, apply.Answer, error, *corev1.Pod) bool { return false },
	})
	e.Slow.Wait()
	return until, sent
}

// TestTheTimeOfASlowWriteThatWaits: the API server may be at work on a write until its time is up, counted from when it is sent. If the time counted from when the write got its
// place in the lane, a pass would look for its outcome too early, and find that it took no effect.
func TestTheTimeOfASlowWriteThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := unreadyJob(t, &slowPods{}, 1, rollout.Delete, rollout.Recreating)
		e.Pace, e.Slow = newPace(), &SlowLane{Pods: &slowPods{}, Free: func(context.Context, func() bool) {}}
		until, sent := waitingWrite(t.Context(), t, e, SlowWriteTimeout/2)
		if want := sent.Add(SlowWriteTimeout + writeTimeout); sent == 0 || until != want {
			t.Errorf("sent at %v and under way until %v, want until %v", sent, until, want)
		}
	})
}

// TestWhoEndsKeepsTheLeaseOfSlowWrites: what a manager that ends has cut off may still take effect, so the next leader must wait for it.
func TestWhoEndsKeepsTheLeaseOfSlowWrites(t *testing.T) {
	for _, ends := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			freed := false
			e, _ := unreadyJob(t, &slowPods{}, 1, rollout.Delete, rollout.Recreating)
			e.Pace, e.Slow = newPace(), &SlowLane{Pods: &slowPods{}, Free: func(context.Context, func() bool) { freed = true }}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			if ends {
				time.AfterFunc(time.Second, end)
			}
			waitingWrite(ctx, t, e, 2*time.Second)
			if freed == ends {
				t.Errorf("the manager ends %t, and the lease is given back %t", ends, freed)
			}
		})
	}
}
