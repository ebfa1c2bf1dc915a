// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/rollout"
)

// sender is the Executor at work for one set: its requests wait for their turn.
type sender struct {
	*Executor
	key clustercache.Key
	// late reports whether writes that have not started are left to the next pass (see request); nil for never.
	late func() bool
	// void reports whether the reason for the action no longer exists (see request); nil for never.
	void func() bool
	// queued is called when a request has been queued (see inTurn); nil if no other one waits for that.
	queued func()
}

// continuing returns a sender for writes that follow from an answer: what has begun is completed in this pass.
func (e sender) continuing() sender {
	e.late, e.void = nil, nil
	return e
}

// inTurn starts f in a goroutine, and returns when its first request has been queued, or f has returned. So
// requests get their turns in the order of the calls, whichever goroutine is faster.
func (e sender) inTurn(wg *sync.WaitGroup, f func(e sender)) {
	queued := make(chan struct{})
	e.queued = sync.OnceFunc(func() { close(queued) })
	wg.Go(func() {
		defer e.queued()
		f(e)
	})
	<-queued
}

// sliceTime is how long a pass may start writes while other sets wait for their pass.
const sliceTime = time.Second

// slice is the time in which a pass may start writes. others reports whether other sets wait for their pass.
type slice struct {
	clock  clock.PassiveClock
	began  time.Time
	others func() bool
	begun  atomic.Bool
}

// late reports whether the time of a pass has ended. Its first request is never late, however long its turn takes to come.
func (s *slice) late() bool { return s.begun.Swap(true) && s.over() }

func (s *slice) over() bool { return s.clock.Since(s.began) > sliceTime && s.others() }

// BatchOfMany is how many creates are sent at once while other sets wait, and the end of the slice is near: what is sent together is not left.
const BatchOfMany = 8

// most is how many creates may be sent at once.
func (s *slice) most() int {
	if s.clock.Since(s.began) > sliceTime/2 && s.others() {
		return BatchOfMany
	}
	return rollout.DefaultBurst
}

func (e *Executor) newSlice(others func() bool) *slice {
	return &slice{clock: e.Clock, began: e.Clock.Now(), others: others}
}

// send sends a request when its turn has come, and repeats it while the API server has no room for it. The error is errLate if it was not sent.
func (e sender) send(ctx context.Context, verb string, send func() error) error {
	return e.Pace.do(ctx, request{key: e.key, verb: verb, send: send, late: e.late, void: e.void, queued: e.queued, busy: func() {
		if verb != verbGet && verb != verbSee {
			e.Count(verb, apply.Busy)
		}
	}})
}

// begin records that a write begins that a pass waits for. If it is cut off, a later pass looks for what became of it.
func (e sender) begin(w *inflight.Write) {
	w.Until = e.Pace.now().Add(writeTimeout)
	e.Index.Begin(*w)
}

// resolve records the answer to such a write, after the pod in the answer has been observed.
func (e sender) resolve(w inflight.Write, answer apply.Answer) {
	outcome := inflight.NoEffect
	switch answer {
	case apply.Done:
		outcome = inflight.TookEffect
	case apply.Differs:
		outcome = inflight.Differed
	case apply.Unclear:
		w.Until, outcome = e.Pace.now().Add(writeTimeout), inflight.Unclear
	}
	e.Index.Resolve(w, outcome)
}

func (e sender) get(ctx context.Context, name string) (pod *corev1.Pod, err error) {
	err = e.send(ctx, verbGet, func() (err error) {
		pod, err = e.Pods.Get(ctx, e.key.Namespace, name)
		return err
	})
	return pod, err
}

// find returns the pod with that name, which should be on that node; nil if there is none. Then earlier events of the watch about such a pod are ignored.
func (e sender) find(ctx context.Context, node, name string) (pod *corev1.Pod, err error) {
	var rv string
	err = e.send(ctx, verbGet, func() (err error) {
		pod, rv, err = e.Pods.Find(ctx, e.key.Namespace, name)
		return err
	})
	if err == nil && pod == nil {
		e.Index.RecordAbsent(e.key, node, name, rv)
	}
	return pod, err
}

// gone reads whether a pod is gone for which the answer to a write was "not found", because that may come from an admission webhook. What is known of it is
// forgotten then, and later events of the watch about it do not count. If the pod exists, it is observed as it is.
func (e sender) gone(ctx context.Context, name string, uid types.UID) bool {
	pod, err := e.continuing().get(ctx, name)
	switch {
	case apierrors.IsNotFound(err) || err == nil && pod.UID != uid:
		e.Index.ConfirmDeleted(uid)
		return true
	case err == nil:
		e.observe(pod)
	}
	return false
}

// Sleep waits for d.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
