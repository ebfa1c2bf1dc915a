// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

// slowPods are those of an API server that takes its time for everything, and then answers with err.
type slowPods struct {
	Pods
	takes time.Duration
	err   error
	asked atomic.Int32
}

func (s *slowPods) answer(ctx context.Context) error {
	s.asked.Add(1)
	if err := Sleep(ctx, s.takes); err != nil {
		return err
	}
	return s.err
}

func (s *slowPods) Delete(ctx context.Context, _, _ string, _ metav1.Preconditions) error {
	return s.answer(ctx)
}

func (s *slowPods) Get(ctx context.Context, _, name string) (*corev1.Pod, error) {
	if err := s.answer(ctx); err != nil {
		return nil, err
	}
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
}

func (s *slowPods) Find(ctx context.Context, _, _ string) (*corev1.Pod, string, error) {
	return nil, "1000000", s.answer(ctx)
}

func (s *slowPods) Patch(ctx context.Context, _ PodPatch) (*corev1.Pod, error) {
	return nil, s.answer(ctx)
}

// executorOf is an Executor whose index knows one set, and pods of it or orphans, each on a node of its own.
func executorOf(t *testing.T, s *slowPods, pods int, owner types.UID) *Executor {
	t.Helper()
	x := clustercache.NewIndex(func(clustercache.Key) {})
	rules, err := placement.Compile(map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	app := labels.Set{"app": "a"}
	x.PutSet(setKey(0), &dialect.Workload{Namespace: "ns", Name: "set0", UID: "set", Selector: labels.SelectorFromSet(app), Placement: rules})
	for i := range pods {
		x.PutNode(clustercache.Node{Name: fmt.Sprint("n", i), RV: fmt.Sprint(i + 1)})
		x.PutPod(clustercache.Pod{Namespace: "ns", Name: fmt.Sprint("p", i), UID: uidOf(i), RV: fmt.Sprint(i + 1), Node: fmt.Sprint("n", i), Owner: owner, Labels: app, Hash: "h1", Scheduled: true, Generation: -1})
	}
	return &Executor{Index: x, Pods: s, Pace: newPace(), Clock: clock.RealClock{}, Count: func(string, apply.Answer) {}}
}

func uidOf(i int) types.UID { return types.UID(fmt.Sprint("uid", i)) }

// TestClaimsLeaveTheRest: a set of which much is open, on a server that is slow or does not answer, does not keep a worker from other sets that
// wait. What it has left comes in the next pass.
func TestClaimsLeaveTheRest(t *testing.T) {
	const many = 200
	kinds := map[string]struct {
		owner types.UID
		open  func(x *clustercache.Index, i int, until rollout.Time)
	}{
		"deletes": {"set", func(x *clustercache.Index, i int, until rollout.Time) {
			x.Resolve(inflight.Write{Verb: inflight.Delete, UID: uidOf(i), Until: until}, inflight.Unclear)
		}},
		"creates": {"set", func(x *clustercache.Index, i int, until rollout.Time) {
			x.Resolve(inflight.Write{Verb: inflight.Create, Set: setKey(0), Node: fmt.Sprint("n", i), Pod: fmt.Sprint("new", i), Until: until}, inflight.Unclear)
		}},
		"edits": {"set", func(x *clustercache.Index, i int, until rollout.Time) {
			x.Resolve(inflight.Write{Verb: inflight.Edit, UID: uidOf(i), Until: until, Takes: true}, inflight.Unclear)
		}},
		"orphans": {"", func(*clustercache.Index, int, rollout.Time) {}},
	}
	answers := map[string]struct {
		takes time.Duration
		err   error
	}{"slow": {3 * time.Second, nil}, "silent": {writeTimeout, context.DeadlineExceeded}}
	for kind, k := range kinds {
		for answer, a := range answers {
			t.Run(kind+", "+answer, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &slowPods{takes: a.takes, err: a.err}
					if kind == "orphans" && a.err == nil {
						s.err = apierrors.NewNotFound(corev1.Resource("pods"), "x") // an answer without a pod
					}
					e := executorOf(t, s, many, k.owner)
					for i := range many {
						k.open(e.Index, i, e.Pace.now())
					}
					c := &Claim{Key: setKey(0), Owner: metav1.OwnerReference{UID: "set"}, MayAdopt: func(context.Context) error { return nil }, Others: func() bool { return true }}
					began := time.Now()
					done, err := e.Claims(t.Context(), c)
					// What was begun in the first second has its answer, and the look that follows from it, after two more.
					if took := time.Since(began); done || took > sliceTime+2*writeTimeout+2*longestPause || errors.Is(err, errLate) {
						t.Errorf("after %v: done %v, error %v", took, done, err)
					}
					if n := int(s.asked.Load()); n == 0 || n >= many {
						t.Errorf("%d requests", n)
					}
					c.Others = func() bool { return false }
					if a.err == nil {
						if done, err := e.Claims(t.Context(), c); !done || err != nil {
							t.Errorf("while nobody waits: done %v, error %v", done, err)
						}
					}
				})
			})
		}
	}
}

// longestPause is for how long a window that a time-out has closed stays so, at most.
const longestPause = 5 * time.Second

// TestOpenCreatesHoldNothingUp: that there was no time to look for pods that may be there already is nothing that is left to be done.
func TestOpenCreatesHoldNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 100
		s := &slowPods{takes: 3 * time.Second}
		e := executorOf(t, s, many, "set")
		for i := range many {
			e.Index.Resolve(inflight.Write{Verb: inflight.Create, Set: setKey(0), Node: fmt.Sprint("n", i), Pod: fmt.Sprint("new", i), Until: e.Pace.now().Add(time.Hour)}, inflight.Unclear)
		}
		c := &Claim{Key: setKey(0), Owner: metav1.OwnerReference{UID: "set"}, Others: func() bool { return true }}
		if done, err := e.Claims(t.Context(), c); !done || err != nil {
			t.Errorf("done %v, error %v", done, err)
		}
		if n := int(s.asked.Load()); n >= many {
			t.Errorf("%d requests", n)
		}
	})
}

// TestAnnouncementsLeaveTheRest too.
func TestAnnouncementsLeaveTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		s := &slowPods{takes: 3 * time.Second, err: apierrors.NewNotFound(corev1.Resource("pods"), "x")}
		e := executorOf(t, s, many, "set")
		others := true
		job := &Job{
			Key: setKey(0), MayWrite: func() bool { return true }, Others: func() bool { return others }, Batch: 1,
			Announce: func(dialect.Announcement, time.Time) dialect.Edit {
				return dialect.Edit{Of: dialect.Status, Patch: []byte("{}")}
			},
			Snapshot: rollout.Snapshot{Nodes: make([]rollout.Node, many)}, Plan: rollout.Plan{Verdicts: make([]rollout.Verdict, many)},
		}
		for i := range many {
			job.Plan.Announcements = append(job.Plan.Announcements, rollout.Announcement{Node: i, Pod: fmt.Sprint("p", i), UID: string(uidOf(i)), Withdraw: true})
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
