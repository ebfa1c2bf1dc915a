// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/podtemplate"
	"everynode.dev/everynode/internal/rollout"
)

// createdPods note when the first pod is created; deletes get no answer, as where a webhook hangs.
type createdPods struct {
	*slowPods
	began   time.Time
	created atomic.Int64
}

func (c *createdPods) Create(_ context.Context, u *unstructured.Unstructured) (*corev1.Pod, error) {
	c.created.CompareAndSwap(0, int64(time.Since(c.began)+1))
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: u.GetName(), UID: "new", ResourceVersion: "9000"}}, nil
}

// makePods lets a job make pods of an empty template.
func makePods(t *testing.T, e *Executor, job *Job) {
	t.Helper()
	rules, err := placement.Compile(map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	job.Workload = e.Index.Workload(setKey(0))
	job.Maker = func(int) *podtemplate.Maker { return podtemplate.NewMaker(map[string]any{}, rules) }
}

// TestCreatesComeFirst: a plan begins with what brings service back to nodes that have no pod, and its requests have their turns in its order.
func TestCreatesComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		c := &createdPods{slowPods: &slowPods{takes: writeTimeout, err: context.DeadlineExceeded}, began: time.Now()}
		e, job := recovered(t, c.slowPods, many)
		e.Pods = c
		makePods(t, e, job)
		job.Snapshot.Nodes[0].Pods = nil
		job.Plan.Actions = []rollout.Action{{Kind: rollout.Create, Node: 0, Revision: 1, Reason: rollout.Creating}}
		for i := 1; i < many; i++ {
			job.Plan.Actions = append(job.Plan.Actions, rollout.Action{
				Kind: rollout.Delete, Node: i, Pod: fmt.Sprint("p", i), UID: string(uidOf(i)), Reason: rollout.ReplacingFailed,
			})
		}
		_, _ = e.Run(t.Context(), job)
		if after := time.Duration(c.created.Load()); after == 0 || after > time.Second {
			t.Errorf("the pod of a node that has none was created after %s, behind the deletes", after)
		}
	})
}

// slowCreates take longer than a slice.
type slowCreates struct {
	*slowPods
	created atomic.Int64
}

func (c *slowCreates) Create(_ context.Context, u *unstructured.Unstructured) (*corev1.Pod, error) {
	time.Sleep(sliceTime * 3 / 2)
	c.created.Add(1)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: u.GetName(), UID: types.UID(u.GetName()), ResourceVersion: "9000"}}, nil
}

// TestSlowCreatesBecomeMore: while other sets wait each pass has time for one batch alone, and the next one begins with twice as many.
func TestSlowCreatesBecomeMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 15
		c := &slowCreates{slowPods: &slowPods{}}
		batch, sent := 1, 0
		for pass := range 4 {
			e, job := recovered(t, c.slowPods, many)
			e.Pods, job.Others, job.Batch = c, func() bool { return true }, batch
			makePods(t, e, job)
			for i := sent; i < many; i++ {
				job.Snapshot.Nodes[i].Pods = nil
				job.Plan.Actions = append(job.Plan.Actions, rollout.Action{Kind: rollout.Create, Node: i, Revision: 1, Reason: rollout.Creating})
			}
			result, err := e.Run(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			batch, sent = result.Batch, int(c.created.Load())
			if want := 1<<(pass+1) - 1; sent != want || result.Left != (want < many) {
				t.Errorf("after pass %d there are %d pods, want %d; left %v", pass, sent, want, result.Left)
			}
		}
	})
}
