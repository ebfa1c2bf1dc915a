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
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// recovered is an index of pods that are all ready, except for the last one, and a job that was decided when none of them but the first was.
func recovered(t *testing.T, s *slowPods, pods int) (*Executor, *Job) {
	t.Helper()
	e := executorOf(t, s, pods, "set")
	e.Events = &record.FakeRecorder{}
	job := &Job{
		Key: setKey(0), Workload: e.Index.Workload(setKey(0)), Owner: metav1.OwnerReference{UID: "set"}, MayWrite: func() bool { return true }, Others: func() bool { return false }, Batch: 1, Texts: &dialect.Texts{}, Edits: struct{ dialect.Edits }{},
		Plan: rollout.Plan{Verdicts: make([]rollout.Verdict, pods)},
	}
	job.Snapshot.Revisions = []rollout.Revision{{Name: "h1"}, {Name: "h2"}}
	job.Snapshot.Set.Update = 1
	for i := range pods {
		if i < pods-1 {
			e.Index.PutPod(podOf(i, pods+i+1, true))
		}
		job.Snapshot.Nodes = append(job.Snapshot.Nodes, rollout.Node{
			Name: fmt.Sprint("n", i), Fit: rollout.MustRun, Pods: []rollout.Pod{{Name: fmt.Sprint("p", i), UID: string(uidOf(i)), Ready: i == 0}},
		})
	}
	return e, job
}

// TestOvertakenDeletes: after an outage a plan replaces pods that are not ready, and they get ready before their turn comes.
func TestOvertakenDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 100
		s := &slowPods{takes: time.Second}
		e, job := recovered(t, s, many)
		for i := range many {
			job.Plan.Actions = append(job.Plan.Actions, rollout.Action{
				Kind: rollout.Delete, Node: i, Pod: fmt.Sprint("p", i), UID: string(uidOf(i)), Reason: rollout.Recreating,
			})
		}
		if result, err := e.Run(t.Context(), job); err != nil || !result.Left {
			t.Errorf("left %v, error %v", result.Left, err)
		}
		// The first one was ready when that was decided, so the budget has room for it; the last one is not ready yet.
		if sent, n := s.asked.Load(), deleting(t, e.Index); sent != 2 || n != 2 {
			t.Errorf("%d deletes were sent, and %d pods count as terminating, want 2", sent, n)
		}
	})
}

// readyPods are pods that are there.
type readyPods struct{ *slowPods }

func (s readyPods) GetSince(_ context.Context, _, name, _ string) (*corev1.Pod, error) {
	var i int
	_, _ = fmt.Sscanf(name, "p%d", &i)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uidOf(i), ResourceVersion: "100", Labels: map[string]string{"app": "a"}}}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "set0", UID: "set", Controller: new(true)}}
	p.Spec.NodeName = fmt.Sprint("n", i)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p, nil
}

// TestOvertakenEdits: what is read just before an edit counts, too.
func TestOvertakenEdits(t *testing.T) {
	e, job := recovered(t, &slowPods{}, 3)
	e.Pods, job.Edits = readyPods{}, oneEdit{} // which cannot be sent here
	for i := range job.Snapshot.Nodes[1:] {
		job.Plan.Actions = append(job.Plan.Actions, rollout.Action{
			Kind: rollout.Prepare, Node: i + 1, Pod: fmt.Sprint("p", i+1), UID: string(uidOf(i + 1)), Reason: rollout.Preparing,
		})
	}
	if result, err := e.Run(t.Context(), job); err != nil || !result.Left {
		t.Errorf("left %v, error %v", result.Left, err)
	}
}

// takenPods are pods that were taken away from the set: the first has another owner, the second none.
type takenPods struct {
	readyPods
	edits atomic.Int64
}

func (p *takenPods) GetSince(ctx context.Context, namespace, name, since string) (*corev1.Pod, error) {
	pod, err := p.readyPods.GetSince(ctx, namespace, name, since)
	pod.OwnerReferences[0].UID = "another"
	if name == "p1" {
		pod.OwnerReferences = nil
	}
	return pod, err
}

func (p *takenPods) Patch(context.Context, PodPatch) (*corev1.Pod, error) {
	p.edits.Add(1)
	return nil, errors.New("the pod is not of the set")
}

// TestPodsThatWereTakenAway: a pod that is not of the set any more is not edited, although that has not been seen yet.
func TestPodsThatWereTakenAway(t *testing.T) {
	e, job := recovered(t, &slowPods{}, 2)
	pods := &takenPods{}
	e.Pods, job.Edits = pods, oneEdit{}
	for i := range job.Snapshot.Nodes {
		job.Plan.Actions = append(job.Plan.Actions, rollout.Action{Kind: rollout.Prepare, Node: i, Pod: fmt.Sprint("p", i), UID: string(uidOf(i)), Reason: rollout.Preparing})
	}
	if _, err := e.Run(t.Context(), job); err != nil || pods.edits.Load() != 0 {
		t.Errorf("%d edits were sent, error %v", pods.edits.Load(), err)
	}
}

// TestOvertaken: what nobody may count on, or has to go whatever it is, is not overtaken.
func TestOvertaken(t *testing.T) {
	e, job := recovered(t, &slowPods{}, 3)
	r := &run{e: sender{Executor: e}, job: job}
	surge := rollout.Action{Kind: rollout.Create, Node: 1, Reason: rollout.Surging}
	wants := func(what string, a rollout.Action, want bool) {
		t.Helper()
		if got := r.overtaken(a)(); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	wants("a second pod beside one that has become ready", surge, true)
	wants("a second pod beside one that was ready", rollout.Action{Kind: rollout.Create, Node: 0, Reason: rollout.Surging}, false)
	wants("a second pod beside one that is not ready yet", rollout.Action{Kind: rollout.Create, Node: 2, Reason: rollout.Surging}, false)
	taking := rollout.Action{Kind: rollout.Delete, Node: 1, UID: string(uidOf(1))}
	for reason, want := range map[rollout.VerdictKind]bool{
		rollout.Recreating: true, rollout.FinishingSurge: true, rollout.UpdatingInPlace: true, rollout.Preparing: true,
		rollout.Removing: false, rollout.RemovingExcess: false, rollout.ReplacingFailed: false, rollout.ReplacingEnded: false,
	} {
		taking.Reason = reason
		wants(reason.String(), taking, want)
	}
	taking.Reason = rollout.Preparing
	node := &job.Snapshot.Nodes[1]
	node.Fit = rollout.MustLeave
	wants("a pod that has to leave", taking, false)
	node.Fit, node.Gone = rollout.MustRun, true
	wants("a pod of a node that is gone", taking, false)
	taking.Reason = rollout.Removing
	wants("a pod of a node that was gone, and is there again", taking, true)
	node.Name = "n9"
	wants("a pod that goes with its node", taking, false)
	node.Name, node.Gone, node.Fit = "n1", false, rollout.MustLeave
	wants("a pod that had to leave, and need not any more", taking, true)
	evict := taking
	evict.Reason, evict.Evict = rollout.Preparing, true
	wants("one that its hook lets go", evict, true)
	e.Index.PutNode(clustercache.Node{Name: "n1", RV: "100", Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoExecute}}})
	wants("a pod that still has to leave", taking, false)
	wants("one that still has to, and its hook lets go", evict, false)
	node.Fit = rollout.MustRun
	taking.Reason = rollout.Preparing
	node.Gone, node.Pods[0].InPlace = false, rollout.InPlaceMarked
	wants("a pod that is being changed in place", taking, false)
	node.Pods[0].InPlace, node.Pods[0].Deleting = rollout.InPlaceNone, true
	wants("a second pod beside one that is terminating", surge, false)
}

// unreadyJob is an index of pods none of which is ready, and a job that replaces them all, as decided then.
func unreadyJob(t *testing.T, s *slowPods, pods int, kind rollout.ActionKind, reason rollout.VerdictKind) (*Executor, *Job) {
	t.Helper()
	e, job := recovered(t, s, pods)
	for i := range pods {
		e.Index.PutPod(podOf(i, 2*pods+i+1, false))
		job.Snapshot.Nodes[i].Pods[0].Ready = false
		job.Plan.Actions = append(job.Plan.Actions, rollout.Action{Kind: kind, Node: i, Pod: fmt.Sprint("p", i), UID: string(uidOf(i)), Reason: reason})
	}
	return e, job
}

func podOf(i, rv int, ready bool) clustercache.Pod {
	return clustercache.Pod{
		Namespace: "ns", Name: fmt.Sprint("p", i), UID: uidOf(i), RV: fmt.Sprint(rv), Node: fmt.Sprint("n", i), Owner: "set",
		Labels: labels.Set{"app": "a"}, Hash: "h1", Scheduled: true, Generation: -1, Ready: ready,
	}
}

// TestOvertakenWhileTheClientWaits: the turns have been given, and the requests wait for --kube-api-qps, while the pods become ready.
func TestOvertakenWhileTheClientWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 30
		s := &slowPods{}
		e, job := unreadyJob(t, s, many, rollout.Delete, rollout.Recreating)
		limit := flowcontrol.NewTokenBucketRateLimiter(10, 5) // the default is 50, and a window of 250
		e.Pace = NewPace(clock.RealClock{}, limit.Wait, Sleep)
		go func() {
			time.Sleep(50 * time.Millisecond)
			for i := range many {
				e.Index.PutPod(podOf(i, 1000+i, true))
			}
		}()
		_, err := e.Run(t.Context(), job)
		if sent := s.asked.Load(); err != nil || sent > 6 {
			t.Errorf("%d deletes of pods were sent, nearly all of them after the pods had become ready, error %v", sent, err)
		}
	})
}

// busyPods ask to come back in a second, as an API server does that has just come back itself.
type busyPods struct {
	*slowPods
	deletes, late atomic.Int64
	ready         atomic.Bool
}

func (b *busyPods) Delete(context.Context, string, string, metav1.Preconditions) error {
	if b.deletes.Add(1); b.ready.Load() {
		b.late.Add(1)
		return nil
	}
	return apierrors.NewTooManyRequests("come back", 1)
}

// TestOvertakenWhileTheServerIsBusy: what was answered 429 took no effect, and is not sent again once the pod has become ready.
func TestOvertakenWhileTheServerIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 20
		b := &busyPods{slowPods: &slowPods{}}
		e, job := unreadyJob(t, b.slowPods, many, rollout.Delete, rollout.Recreating)
		e.Pods = b
		go func() {
			time.Sleep(500 * time.Millisecond)
			for i := range many {
				e.Index.PutPod(podOf(i, 1000+i, true))
			}
			b.ready.Store(true)
		}()
		_, err := e.Run(t.Context(), job)
		if late := b.late.Load(); err != nil || late > 0 {
			t.Errorf("%d deletes were sent after the pods had become ready, error %v", late, err)
		}
	})
}

// editedPods are pods that are not ready when they are read; all of them become ready a second later.
type editedPods struct {
	*slowPods
	began time.Time
	late  atomic.Int64
}

func (p *editedPods) GetSince(_ context.Context, _, name, _ string) (*corev1.Pod, error) {
	time.Sleep(200 * time.Millisecond)
	var i int
	_, _ = fmt.Sscanf(name, "p%d", &i)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uidOf(i), ResourceVersion: fmt.Sprint(500 + i), Labels: map[string]string{"app": "a"}}}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "set0", UID: "set", Controller: new(true)}}
	pod.Spec.NodeName = fmt.Sprint("n", i)
	if time.Since(p.began) > time.Second {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return pod, nil
}

func (p *editedPods) Patch(_ context.Context, patch PodPatch) (*corev1.Pod, error) {
	if time.Since(p.began) > time.Second+100*time.Millisecond {
		p.late.Add(1)
	}
	return p.GetSince(context.Background(), "ns", patch.Pod, "")
}

type oneEdit struct{ dialect.Edits }

func (oneEdit) Prepare(*dialect.Workload, *corev1.Pod, bool, time.Time) []dialect.Edit {
	return []dialect.Edit{{Of: dialect.Whole, Patch: []byte("{}")}}
}

// TestOvertakenEditsThatWait: the pods are read in time, but their edits queue behind the reads of all others.
func TestOvertakenEditsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		p := &editedPods{slowPods: &slowPods{}, began: time.Now()}
		e, job := unreadyJob(t, p.slowPods, many, rollout.Prepare, rollout.Preparing)
		e.Pods, job.Edits = p, oneEdit{}
		go func() {
			time.Sleep(time.Second)
			for i := range many {
				e.Index.PutPod(podOf(i, 1000+i, true))
			}
		}()
		_, err := e.Run(t.Context(), job)
		if late := p.late.Load(); err != nil || late > 0 {
			t.Errorf("%d edits that take a pod away were sent after the pods had become ready, error %v", late, err)
		}
	})
}

// readyByFirst is a pod that becomes ready with the first edit.
type readyByFirst struct {
	editedPods
	e     *Executor
	edits atomic.Int64
}

func (p *readyByFirst) Patch(ctx context.Context, patch PodPatch) (*corev1.Pod, error) {
	pod, err := p.GetSince(ctx, "ns", patch.Pod, "")
	if p.edits.Add(1) == 1 {
		p.e.Index.PutPod(podOf(0, 1000, true))
		pod.ResourceVersion = "999" // as it was before
	}
	return pod, err
}

type twoEdits struct{ dialect.Edits }

func (twoEdits) Mark(*corev1.Pod, time.Time) []dialect.Edit {
	return []dialect.Edit{{Of: dialect.Whole, Patch: []byte("{}")}, {Of: dialect.Status, Patch: []byte("{}")}}
}

// TestOvertakenBetweenEdits: it is the edit which takes the pod away that is asked about, though another one came before.
func TestOvertakenBetweenEdits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &readyByFirst{editedPods: editedPods{slowPods: &slowPods{}, began: time.Now()}}
		e, job := unreadyJob(t, p.slowPods, 1, rollout.Mark, rollout.UpdatingInPlace)
		p.e, e.Pods, job.Edits = e, p, twoEdits{}
		if result, err := e.Run(t.Context(), job); err != nil || p.edits.Load() != 1 || !result.Left {
			t.Errorf("%d edits were sent, left %v, error %v", p.edits.Load(), result.Left, err)
		}
	})
}

// TestOvertakenRemovals: with a surge an old pod that is not ready goes at once from a node that may only keep it, and one that is ready does not before
// as many are available elsewhere.
func TestOvertakenRemovals(t *testing.T) {
	e, job := recovered(t, &slowPods{}, 3)
	r := &run{e: sender{Executor: e}, job: job}
	job.Snapshot.Nodes[1].Fit = rollout.MayStay
	if !r.overtaken(rollout.Action{Kind: rollout.Delete, Node: 1, UID: string(uidOf(1)), Reason: rollout.Removing})() {
		t.Error("it has become ready, and goes all the same")
	}
}
