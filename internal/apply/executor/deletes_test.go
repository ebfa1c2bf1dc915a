// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/rollout"
)

// changedPods is the pod p0 of an API server, with the preconditions of the deletes that it was asked for.
type changedPods struct {
	readyPods
	// changes is called when a delete has arrived, before it is carried out.
	changes func(*changedPods)
	mu      sync.Mutex
	rv      int
	ready   bool
	asked   []metav1.Preconditions
	gone    bool
}

func (c *changedPods) Delete(_ context.Context, _, name string, only metav1.Preconditions) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, only)
	c.changes(c)
	if only.ResourceVersion != nil && *only.ResourceVersion != strconv.Itoa(c.rv) {
		return apierrors.NewConflict(corev1.Resource("pods"), name, errors.New("the resourceVersion differs"))
	}
	c.gone = true
	return nil
}

func (c *changedPods) Get(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.GetSince(ctx, namespace, name, "")
	p.ResourceVersion = strconv.Itoa(c.rv)
	if !c.ready {
		p.Status.Conditions = nil
	}
	return p, err
}

// getsReady makes the pod ready, which no watch reports.
func getsReady(c *changedPods) {
	c.rv++
	c.ready = true
}

// replaced is a job that replaces p0, which was not ready when that was decided, and is of the version 3.
func replaced(t *testing.T, changes func(*changedPods)) (*Executor, *Job, *changedPods) {
	t.Helper()
	s := &slowPods{}
	e, job := unreadyJob(t, s, 1, rollout.Delete, rollout.Recreating)
	c := &changedPods{readyPods: readyPods{s}, changes: changes, rv: 3}
	e.Pods = c
	return e, job, c
}

// TestDeleteOfAPodThatHasBecomeReady: a pod gets ready after its delete was sent, before the API server carries it out. The delete was free, and is no longer.
func TestDeleteOfAPodThatHasBecomeReady(t *testing.T) {
	e, job, c := replaced(t, getsReady)
	result, err := e.Run(t.Context(), job)
	if c.gone || len(c.asked) != 1 {
		t.Errorf("gone %t after %d deletes, want one that takes no effect", c.gone, len(c.asked))
	}
	if err != nil || !result.Left || result.Outcomes[0].Done {
		t.Errorf("left %t, done %t, error %v: want another pass", result.Left, result.Outcomes[0].Done, err)
	}
	if deleting(t, e.Index) != 0 || !e.Index.Ready(uidOf(0)) {
		t.Errorf("%d pods count as terminating, ready %t: want the pod as it is", deleting(t, e.Index), e.Index.Ready(uidOf(0)))
	}
}

// TestSlowDeleteOfAPodThatHasBecomeReady: no pass waits for the delete.
func TestSlowDeleteOfAPodThatHasBecomeReady(t *testing.T) {
	e, job, c := replaced(t, getsReady)
	e.Slow = &SlowLane{Pods: c, Free: func(context.Context, func() bool) {}, Hold: func(context.Context) error { return nil }}
	e.Slow.heard(slowKind{job.Key, verbDelete}, "n0", apierrors.NewTimeoutError("", 0))
	_, err := e.Run(t.Context(), job)
	e.Slow.Wait()
	if c.gone || len(c.asked) != 1 || err != nil {
		t.Errorf("gone %t after %d deletes, want one that takes no effect, error %v", c.gone, len(c.asked), err)
	}
	if deleting(t, e.Index) != 0 || !e.Index.Ready(uidOf(0)) || e.Index.InDoubt(uidOf(0)) {
		t.Errorf("%d pods count as terminating, ready %t: want the pod as it is", deleting(t, e.Index), e.Index.Ready(uidOf(0)))
	}
}

// TestDeleteOfAPodThatChangesAllTheTime: a client that writes the pod all the time does not keep it.
func TestDeleteOfAPodThatChangesAllTheTime(t *testing.T) {
	e, job, c := replaced(t, func(c *changedPods) { c.rv++ })
	for pass := 1; !c.gone; pass++ {
		result, err := e.Run(t.Context(), job)
		if err != nil || pass > mostDiffering+1 || result.Left == c.gone {
			t.Fatalf("pass %d: gone %t, left %t, error %v", pass, c.gone, result.Left, err)
		}
	}
	if last := len(c.asked) - 1; last != mostDiffering || c.asked[last].ResourceVersion != nil || c.asked[0].ResourceVersion == nil {
		t.Errorf("%d deletes, want the versions to be named %d times", last+1, mostDiffering)
	}
}

// TestDeletesOfAPodThatComesAndGoes: a pod becomes ready before each of its deletes takes effect, and later it is not ready again. However often that is, none takes it.
func TestDeletesOfAPodThatComesAndGoes(t *testing.T) {
	e, job, c := replaced(t, getsReady)
	for pass := 1; pass <= 2*mostDiffering; pass++ {
		result, err := e.Run(t.Context(), job)
		if c.gone || err != nil || !result.Left || !e.Index.Ready(uidOf(0)) || len(c.asked) != pass {
			t.Fatalf("pass %d: gone %t after %d deletes, left %t, error %v", pass, c.gone, len(c.asked), result.Left, err)
		}
		c.rv++
		c.ready = false
		e.Index.PutPod(podOf(0, c.rv, false))
	}
}

// TestEditsDoNotCountForDeletes: edits of a pod that others overtook are no reason to delete it whatever it has become.
func TestEditsDoNotCountForDeletes(t *testing.T) {
	e, job, c := replaced(t, getsReady)
	for range mostDiffering {
		e.Index.Resolve(inflight.Write{Verb: inflight.Edit, UID: uidOf(0)}, inflight.Differed)
	}
	if _, err := e.Run(t.Context(), job); err != nil || c.gone {
		t.Errorf("gone %t, error %v", c.gone, err)
	}
}

// TestAVersionThatIsNotSent: a pod becomes ready just before its delete would be sent. There is no request, and so no conflict.
func TestAVersionThatIsNotSent(t *testing.T) {
	e, job, c := replaced(t, getsReady)
	d := (&run{e: sender{Executor: e, key: job.Key}, job: job}).deletion(job.Plan.Actions[0])
	e.Index.PutPod(podOf(0, 1000, true))
	answer, err := d.meaning(t.Context(), d.send(t.Context(), e.Pods))
	d.resolve(answer)
	if answer != apply.Differs || err == nil || len(c.asked) != 0 || e.Index.Conflicts(d.uid, inflight.Delete) != 0 {
		t.Errorf("%v after %d deletes, error %v, %d conflicts", answer, len(c.asked), err, e.Index.Conflicts(d.uid, inflight.Delete))
	}
}

// TestDeleteOfAPodThatHasLeftItsSet: the pod has another controller now, which no watch reports. The read after the conflict shows it.
func TestDeleteOfAPodThatHasLeftItsSet(t *testing.T) {
	e, job, c := replaced(t, func(c *changedPods) { c.rv = 50 })
	e.Pods = takenAway{c}
	for range 2 * mostDiffering {
		if result, err := e.Run(t.Context(), job); c.gone || err == nil || OnlyRefusals(err) || result.Left || deleting(t, e.Index) != 0 {
			t.Fatalf("gone %t, left %t, error %v, want a pass that is repeated with a back-off", c.gone, result.Left, err)
		}
	}
}

// TestDeleteAfterARestore: the storage was restored, so the pod that is read is ready, and older than what is known of it. The read changes nothing then.
func TestDeleteAfterARestore(t *testing.T) {
	e, job, c := replaced(t, func(*changedPods) {})
	e.Index.PutPod(podOf(0, 1000, false))
	c.ready = true
	for range 2 * mostDiffering {
		if result, err := e.Run(t.Context(), job); c.gone || err == nil || OnlyRefusals(err) || result.Left {
			t.Fatalf("gone %t, left %t, error %v, want a pass that is repeated with a back-off", c.gone, result.Left, err)
		}
	}
}

// takenAway has pods of a ReplicaSet.
type takenAway struct{ *changedPods }

func (s takenAway) Get(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	p, err := s.changedPods.Get(ctx, namespace, name)
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: new(true)}}
	return p, err
}

// TestAConflictIsDefinite: where the read after it fails, it is still clear that the delete took no effect.
func TestAConflictIsDefinite(t *testing.T) {
	e, job, c := replaced(t, getsReady)
	e.Pods = unreadable{c}
	if _, err := e.Run(t.Context(), job); err == nil || OnlyRefusals(err) || c.gone || deleting(t, e.Index) != 0 {
		t.Errorf("gone %t, %d pods count as terminating, error %v, want a pass that is repeated", c.gone, deleting(t, e.Index), err)
	}
}

// unreadable has pods that cannot be read.
type unreadable struct{ *changedPods }

func (unreadable) Get(context.Context, string, string) (*corev1.Pod, error) {
	return nil, apierrors.NewInternalError(errors.New("no answer from the storage"))
}

// TestDeleteOfAReadyPod: its place in the budget is paid, so it may change as it likes.
func TestDeleteOfAReadyPod(t *testing.T) {
	e, job, c := replaced(t, func(c *changedPods) { c.rv++ })
	e.Index.PutPod(podOf(0, 1000, true))
	job.Snapshot.Nodes[0].Pods[0].Ready = true
	if _, err := e.Run(t.Context(), job); err != nil || !c.gone || c.asked[0].ResourceVersion != nil || *c.asked[0].UID != uidOf(0) {
		t.Errorf("gone %t, preconditions %+v, error %v", c.gone, c.asked[0], err)
	}
}

// TestARefusalWithTheCodeOfAConflict: a webhook may refuse with any code. The pod is as it was, and the refusal counts at last.
func TestARefusalWithTheCodeOfAConflict(t *testing.T) {
	e, job, c := replaced(t, func(c *changedPods) {})
	e.Pods = conflicting{c}
	for range mostDiffering {
		if result, err := e.Run(t.Context(), job); err != nil || !result.Left {
			t.Fatalf("left %t, error %v", result.Left, err)
		}
	}
	if result, err := e.Run(t.Context(), job); result.Left || err == nil {
		t.Errorf("left %t, error %v, want a refusal", result.Left, err)
	}
}

// conflicting answers every delete with a conflict.
type conflicting struct{ *changedPods }

func (conflicting) Delete(_ context.Context, _, name string, _ metav1.Preconditions) error {
	return apierrors.NewConflict(corev1.Resource("pods"), name, errors.New("not today"))
}
