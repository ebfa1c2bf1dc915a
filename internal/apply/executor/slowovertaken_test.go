// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/rollout"
)

// sentInLane counts what the slow lane sends.
type sentInLane struct {
	*slowPods
	sent atomic.Int64
}

func (s *sentInLane) Delete(context.Context, string, string, metav1.Preconditions) error {
	s.sent.Add(1)
	return nil
}

func (s *sentInLane) Patch(context.Context, PodPatch) (*corev1.Pod, error) {
	s.sent.Add(1)
	return &corev1.Pod{}, nil
}

// TestOvertakenInTheSlowLane: a slow write waits until the lease is held. If its pod becomes ready before that, or another controller begins to work on the set, or a user
// edits or deletes the set, it is not sent.
func TestOvertakenInTheSlowLane(t *testing.T) {
	for verb, a := range map[string]rollout.Action{
		verbDelete: {Kind: rollout.Delete, Reason: rollout.Recreating}, verbPatch: {Kind: rollout.Prepare, Reason: rollout.Preparing},
	} {
		for _, c := range []meanwhile{{}, {ready: true}, {other: true}, {edited: true}, {deleted: true}} {
			sent, e := sendInLane(t, verb, a, c)
			if sent != (c == meanwhile{}) || e.Index.InDoubt(uidOf(0)) {
				t.Errorf("%s, %+v: sent %t, in doubt %t", verb, c, sent, e.Index.InDoubt(uidOf(0)))
			}
			if !c.deleted && !sent && deleting(t, e.Index) != 0 {
				t.Errorf("%s, %+v: the pod counts as terminating although nothing was sent", verb, c)
			}
		}
	}
}

// meanwhile is what has happened when the lease is held.
type meanwhile struct{ ready, other, edited, deleted bool }

// sendInLane carries out an action for a pod that is not ready, in the slow lane, and reports whether it was sent.
func sendInLane(t *testing.T, verb string, a rollout.Action, m meanwhile) (sent bool, e *Executor) {
	t.Helper()
	p := &editedPods{slowPods: &slowPods{}, began: time.Now().Add(time.Hour)} // not ready when they are read
	e, job := unreadyJob(t, p.slowPods, 1, a.Kind, a.Reason)
	lane := &sentInLane{slowPods: p.slowPods}
	var held atomic.Bool
	e.Pods, job.Edits, job.MayWrite = p, oneEdit{}, func() bool { return !m.other || !held.Load() }
	e.Slow = &SlowLane{
		Pods: lane, Free: func(context.Context, func() bool) {},
		Hold: func(context.Context) error {
			e.Index.PutPod(podOf(0, 2000, m.ready))
			switch w := *job.Workload; {
			case m.edited:
				w.Generation++
				e.Index.PutSet(job.Key, &w)
			case m.deleted:
				e.Index.DeleteSet(job.Key)
			}
			held.Store(true)
			return nil
		},
	}
	e.Slow.heard(slowKind{job.Key, verb}, "n0", apierrors.NewTimeoutError("", 0))
	if _, err := e.Run(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	e.Slow.Wait()
	return lane.sent.Load() > 0, e
}
