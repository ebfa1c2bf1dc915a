// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/rollout"
)

// begunPods ask the index for what is under way while a write is sent.
type begunPods struct {
	*slowPods
	index  *clustercache.Index
	begun  bool
	answer error
}

func (b *begunPods) Create(_ context.Context, u *unstructured.Unstructured) (*corev1.Pod, error) {
	b.begun = len(b.index.Ownership(setKey(0), 0).Pending) == 1
	return &corev1.Pod{}, b.answer
}

func (b *begunPods) Delete(context.Context, string, string, metav1.Preconditions) error {
	s, _, _ := b.index.Snapshot(setKey(0), clustercache.History{Update: rollout.NoRevision, Generation: -1}, 0)
	b.begun = s.Nodes[0].Pods[0].Deleting
	return b.answer
}

func (b *begunPods) GetSince(context.Context, string, string, string) (*corev1.Pod, error) {
	return readyPods{}.GetSince(context.Background(), "ns", "p0", "")
}

func (b *begunPods) Patch(context.Context, PodPatch) (*corev1.Pod, error) {
	b.begun = b.index.InDoubt(uidOf(0))
	pod, _ := b.GetSince(context.Background(), "ns", "p0", "")
	return pod, b.answer
}

// TestAWriteIsBegunBeforeItIsSent: while the API server works on it, the index shows it; after a definite answer nothing is left of it but what it did.
func TestAWriteIsBegunBeforeItIsSent(t *testing.T) {
	for name, answer := range map[string]error{
		"it took effect":   nil,
		"it was refused":   apierrors.NewForbidden(corev1.Resource("pods"), "p0", nil),
		"it is not clear":  context.DeadlineExceeded,
		"there is no room": apierrors.NewTooManyRequests("no room", 10),
	} {
		for kind, reason := range map[rollout.ActionKind]rollout.VerdictKind{
			rollout.Create: rollout.Creating, rollout.Delete: rollout.RemovingExcess, rollout.Prepare: rollout.RemovingExcess,
		} {
			t.Run(kind.String()+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e, job := recovered(t, &slowPods{}, 1)
					b := &begunPods{slowPods: &slowPods{}, index: e.Index, answer: answer}
					e.Pods, job.Edits = b, oneEdit{}
					makePods(t, e, job)
					a := rollout.Action{Kind: kind, Revision: 1, Reason: reason}
					if kind != rollout.Create {
						a.Pod, a.UID = "p0", string(uidOf(0))
					}
					job.Plan.Actions = []rollout.Action{a}
					_, _ = e.Run(t.Context(), job)
					if !b.begun {
						t.Error("it was sent, and the index did not know it")
					}
					claims := e.Index.Ownership(setKey(0), 0)
					left := len(claims.Pending) + len(claims.Unsettled) + len(claims.Doubts)
					if unclear := errors.Is(answer, context.DeadlineExceeded); (left == 1) != unclear || left > 1 {
						t.Errorf("%d writes have no definite answer", left)
					}
				})
			})
		}
	}
}
