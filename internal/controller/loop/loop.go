// SPDX-License-Identifier: Apache-2.0

// Package loop is a workqueue of client-go with its workers, shared by the controllers for image pulls. The controller of controller-runtime does the
// same with a manager, a registry of names and metrics of its own; the queue of daemon sets differs in its delays and in what it retries.
//
// A write may take as long as the API server allows its webhooks, up to a minute. A pass that takes longer than slowPass no longer counts as one of the
// workers: another one starts in its place. So the webhook of one namespace does not delay the jobs of another.
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

// The passes that have replaced a worker, of one group of keys and in total; a key of a group with the maximum waits for crowdedPause.
const (
	slowPass               = 5 * time.Second
	slowOfGroup, slowAtAll = 8, 64
	crowdedPause           = time.Second
)

// Reconcile makes one pass for a key. It returns when to come back even if nothing happens (0: never).
type Reconcile[K comparable] func(ctx context.Context, key K) (time.Duration, error)

// Loop is the queue and its workers. Make one with New.
type Loop[K comparable] struct {
	name      string
	clock     clock.WithTicker
	reconcile Reconcile[K]
	queue     workqueue.TypedRateLimitingInterface[K]
	// Group returns what keys share that are slow for the same reason, such as their namespace.
	Group func(K) string

	workers sync.WaitGroup
	mu      sync.Mutex
	slow    map[string]int
	slowAll int
}

// New returns a Loop of that name. Unless Group is set, all keys are one group.
func New[K comparable](name string, c clock.WithTicker, reconcile Reconcile[K]) *Loop[K] {
	return &Loop[K]{name: name, clock: c, reconcile: reconcile, slow: map[string]int{}, Group: func(K) string { return "" },
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[K](100*time.Millisecond, 30*time.Second),
			workqueue.TypedRateLimitingQueueConfig[K]{Name: name, Clock: c})}
}

// Enqueue asks for a pass for the key; it never blocks.
func (l *Loop[K]) Enqueue(key K) { l.queue.AddAfter(key, coalesce) }

// Run works until ctx ends, and returns when all passes have ended.
func (l *Loop[K]) Run(ctx context.Context, workers int) {
	for range workers {
		l.start(ctx)
	}
	<-ctx.Done()
	l.queue.ShutDown()
	l.workers.Wait()
}

// start starts a worker.
func (l *Loop[K]) start(ctx context.Context) {
	l.workers.Go(func() {
		for l.work(ctx) {
		}
	})
}

// work makes the next pass. It returns false if the worker ends: at the end, or because another one has started in its place.
func (l *Loop[K]) work(ctx context.Context) bool {
	key, stop := l.queue.Get()
	if stop {
		return false
	}
	defer l.queue.Done(key)
	if ctx.Err() != nil {
		return true
	}
	group := l.Group(key)
	if l.crowded(group) {
		l.queue.AddAfter(key, crowdedPause)
		return true
	}
	after, replaced, err := l.pass(ctx, key, group)
	switch {
	case err != nil:
		klog.FromContext(ctx).Error(err, "Reconciling failed and will be retried", "controller", l.name, "key", key)
		l.queue.AddRateLimited(key)
	case after > 0:
		l.queue.Forget(key)
		l.queue.AddAfter(key, after)
	default:
		l.queue.Forget(key)
	}
	return !replaced
}

// pass makes one pass, and starts another worker if it takes long.
func (l *Loop[K]) pass(ctx context.Context, key K, group string) (after time.Duration, replaced bool, err error) {
	timer := l.clock.NewTimer(slowPass)
	defer timer.Stop()
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-timer.C():
			if replaced = l.enter(group); replaced {
				l.start(ctx)
			}
		case <-ended:
		}
	}()
	after, err = l.reconcile(ctx, key)
	close(ended)
	<-watched
	if replaced {
		l.leave(group)
	}
	return after, replaced, err
}

// crowded reports whether a pass of the group must wait until one of its slow passes has ended.
func (l *Loop[K]) crowded(group string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return group != "" && l.slow[group] >= slowOfGroup
}

// enter counts a slow pass, unless there are too many.
func (l *Loop[K]) enter(group string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slowAll >= slowAtAll {
		return false
	}
	l.slow[group]++
	l.slowAll++
	return true
}

func (l *Loop[K]) leave(group string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slowAll--
	if l.slow[group]--; l.slow[group] == 0 {
		delete(l.slow, group)
	}
}
