// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// TestDeletesThatAreNotSent: a pod whose delete is left to the next pass, because other sets wait, or is not sent, because another controller has come,
// counts as before: else its node would wait for an end that nobody has asked for.
func TestDeletesThatAreNotSent(t *testing.T) {
	const many = 200
	for name, c := range map[string]struct {
		mayWrite, others bool
		least, most      int // deletes that are sent
	}{
		"while others wait":                   {true, true, 1, many - 1},
		"while another controller is at work": {false, false, 0, 0},
		"while nobody waits":                  {true, false, many, many},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slowPods{takes: 3 * time.Second}
				e := executorOf(t, s, many, "set")
				e.Events = &record.FakeRecorder{}
				job := &Job{
					Key: setKey(0), MayWrite: func() bool { return c.mayWrite }, Others: func() bool { return c.others }, Batch: 1, Texts: &dialect.Texts{},
					Snapshot: rollout.Snapshot{Nodes: make([]rollout.Node, many)}, Plan: rollout.Plan{Verdicts: make([]rollout.Verdict, many)},
				}
				for i := range many {
					job.Plan.Actions = append(job.Plan.Actions, rollout.Action{
						Kind: rollout.Delete, Node: i, Pod: fmt.Sprint("p", i), UID: string(uidOf(i)), Reason: rollout.RemovingExcess,
					})
				}
				if result, err := e.Run(t.Context(), job); err != nil || result.Left != c.others {
					t.Errorf("left %v, error %v", result.Left, err)
				}
				sent := int(s.asked.Load())
				if sent < c.least || sent > c.most {
					t.Errorf("%d deletes were sent, want %d to %d", sent, c.least, c.most)
				}
				if n := deleting(t, e.Index); n != sent {
					t.Errorf("%d deletes were sent, and %d pods count as terminating", sent, n)
				}
			})
		})
	}
}

// deleting is how many pods of the set count as terminating.
func deleting(t *testing.T, x *clustercache.Index) int {
	t.Helper()
	s, _, ok := x.Snapshot(setKey(0), clustercache.History{Update: rollout.NoRevision, Generation: -1}, 0)
	if !ok {
		t.Fatal("the index does not know the set")
	}
	count := 0
	for i := range s.Nodes {
		for j := range s.Nodes[i].Pods {
			if s.Nodes[i].Pods[j].Deleting {
				count++
			}
		}
	}
	return count
}

// GetSince is Get.
func (s *slowPods) GetSince(ctx context.Context, namespace, name, _ string) (*corev1.Pod, error) {
	return s.Get(ctx, namespace, name)
}

// TestEditsLeaveTheRest: where other sets wait, what is left of the edits is told, or nobody would come back for it.
func TestEditsLeaveTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		s := &slowPods{takes: 3 * time.Second}
		e := executorOf(t, s, many, "set")
		others := true
		job := &Job{
			Key: setKey(0), MayWrite: func() bool { return true }, Others: func() bool { return others }, Batch: 1, Edits: struct{ dialect.Edits }{},
			Snapshot: rollout.Snapshot{Nodes: make([]rollout.Node, many)}, Plan: rollout.Plan{Verdicts: make([]rollout.Verdict, many)},
		}
		for i := range many {
			job.Plan.Actions = append(job.Plan.Actions, rollout.Action{Kind: rollout.Prepare, Node: i, Pod: fmt.Sprint("p", i), UID: string(uidOf(i))})
		}
		if result, err := e.Run(t.Context(), job); err != nil || !result.Left || int(s.asked.Load()) >= many {
			t.Errorf("left %v after %d requests, error %v", result.Left, s.asked.Load(), err)
		}
		others = false
		if result, err := e.Run(t.Context(), job); err != nil || result.Left {
			t.Errorf("while nobody waits: left %v, error %v", result.Left, err)
		}
	})
}

// staying are pods that are there and not being deleted.
type staying struct{ *slowPods }

func (staying) Get(context.Context, string, string) (*corev1.Pod, error) {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p0", UID: uidOf(0), ResourceVersion: "1"}}, nil
}

// TestADeleteThatHadNoEffectIsForgotten: a pod whose delete had no answer counts as terminating for as long as that may take effect; then a look
// shows that it is still there, and it counts again.
func TestADeleteThatHadNoEffectIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowPods{}
		e := executorOf(t, s, 1, "set")
		e.Pods = staying{s}
		e.Index.Begin(inflight.Write{Verb: inflight.Delete, UID: uidOf(0), At: 1})
		e.Index.Resolve(inflight.Write{Verb: inflight.Delete, UID: uidOf(0), Until: e.Pace.now().Add(time.Second)}, inflight.Unclear)
		c := &Claim{Key: setKey(0), Owner: metav1.OwnerReference{UID: "set"}, Others: func() bool { return false }}
		for _, want := range []int{1, 0, 0} { // at first it may still take effect
			if done, err := e.Claims(t.Context(), c); !done || err != nil {
				t.Errorf("done %t, error %v", done, err)
			}
			if n := deleting(t, e.Index); n != want {
				t.Errorf("%d pods count as terminating, want %d", n, want)
			}
			time.Sleep(time.Second)
		}
		if n := len(e.Index.Ownership(setKey(0), 0).Unsettled) + int(s.asked.Load()); n != 0 {
			t.Errorf("%d deletes are open or were sent again", n)
		}
	})
}
