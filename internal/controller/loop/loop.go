// SPDX-License-Identifier: Apache-2.0

// Package loop is a workqueue of client-go with its workers, shared by the controllers for image pulls. The controller of controller-runtime does the
// same with a manager, a registry of names and metrics of its own; the queue of daemon sets differs in its delays and in what it retries.
package loop

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// coalesce is how long a key waits after its first event, so that the events of one burst lead to one pass.
const coalesce = 50 * time.Millisecond

// Reconcile makes one pass for a key. It returns when to come back even if nothing happens (0: never).
type Reconcile[K comparable] func(ctx context.Context, key K) (time.Duration, error)

// Loop is the queue and its workers. Make one with New.
type Loop[K comparable] struct {
	name      string
	reconcile Reconcile[K]
	queue     workqueue.TypedRateLimitingInterface[K]
}

// New returns a Loop of that name.
func New[K comparable](name string, c clock.WithTicker, reconcile Reconcile[K]) *Loop[K] {
	return &Loop[K]{name: name, reconcile: reconcile, queue: workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[K](100*time.Millisecond, 30*time.Second),
		workqueue.TypedRateLimitingQueueConfig[K]{Name: name, Clock: c})}
}

// Enqueue asks for a pass for the key; it never blocks.
func (l *Loop[K]) Enqueue(key K) { l.queue.AddAfter(key, coalesce) }

// Run works until ctx ends, and returns when all passes have ended.
func (l *Loop[K]) Run(ctx context.Context, workers int) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for l.work(ctx) {
			}
		})
	}
	<-ctx.Done()
	l.queue.ShutDown()
	wg.Wait()
}

func (l *Loop[K]) work(ctx context.Context) bool {
	key, stop := l.queue.Get()
	if stop {
		return false
	}
	defer l.queue.Done(key)
	if ctx.Err() != nil {
		return true
	}
	after, err := l.reconcile(ctx, key)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Reconciling failed and will be retried", "controller", l.name, "key", key)
		l.queue.AddRateLimited(key)
		return true
	}
	l.queue.Forget(key)
	if after > 0 {
		l.queue.AddAfter(key, after)
	}
	return true
}
