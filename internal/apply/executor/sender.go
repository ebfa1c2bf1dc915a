// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/fleet"
)

// sender is the Executor at work for one set: its requests wait for their turn.
type sender struct {
	*Executor
	key fleet.Key
	// late is whether what has not been begun is left to the next pass (see request); nil for never.
	late func() bool
}

func (e *Executor) sender(key fleet.Key) sender { return sender{Executor: e, key: key} }

// sliceTime is for how long a pass begins to write while other sets wait for theirs.
const sliceTime = time.Second

// slicedSender is a sender for one pass. Something of each pass is done, however long its turn takes to come.
func (e *Executor) slicedSender(job *Job) sender {
	end, begun := e.Clock.Now().Add(sliceTime), &atomic.Bool{}
	return sender{Executor: e, key: job.Key, late: func() bool {
		return begun.Swap(true) && e.Clock.Now().After(end) && job.Others()
	}}
}

func (e sender) send(ctx context.Context, verb string, late func() bool, send func() error) error {
	return e.Pace.do(ctx, request{key: e.key, verb: verb, send: send, late: late, busy: func() {
		if verb != "get" && verb != "see" {
			e.Count(verb, apply.Busy)
		}
	}})
}

func (e sender) create(ctx context.Context, pod *unstructured.Unstructured) (created *corev1.Pod, err error) {
	err = e.send(ctx, "create", e.late, func() (err error) {
		created, err = e.Pods.Create(ctx, pod)
		return err
	})
	return created, err
}

func (e sender) drop(ctx context.Context, name string, uid types.UID) error {
	return e.send(ctx, "delete", e.late, func() error { return e.Pods.Delete(ctx, e.key.Namespace, name, uid) })
}

func (e sender) get(ctx context.Context, name string) (pod *corev1.Pod, err error) {
	err = e.send(ctx, "get", nil, func() (err error) {
		pod, err = e.Pods.Get(ctx, e.key.Namespace, name)
		return err
	})
	return pod, err
}

// seen is the pod as it is at least as new as what is known of it. Something new begins with it.
func (e sender) seen(ctx context.Context, name string, uid types.UID) (pod *corev1.Pod, err error) {
	err = e.send(ctx, "see", e.late, func() (err error) { // it is faster than a get
		pod, err = e.Pods.GetSince(ctx, e.key.Namespace, name, e.Index.Version(uid))
		return err
	})
	return pod, err
}

// gone looks whether a pod of which the answer to a write says so is gone, for an admission webhook may have said it. What is known of it is
// forgotten then, and what the watch may still have to show of it does not count.
func (e sender) gone(ctx context.Context, name string, uid types.UID) bool {
	pod, err := e.get(ctx, name)
	gone := apierrors.IsNotFound(err) || err == nil && pod.UID != uid
	if gone {
		e.Index.BuryPod(uid)
	}
	return gone
}

func (e sender) patch(ctx context.Context, patch PodPatch) (patched *corev1.Pod, err error) {
	err = e.send(ctx, "patch", nil, func() (err error) {
		patched, err = e.Pods.Patch(ctx, patch)
		return err
	})
	return patched, err
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
