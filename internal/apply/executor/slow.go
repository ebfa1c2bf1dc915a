// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/fleet"
	"everynode.dev/everynode/internal/rollout"
)

// SlowWriteTimeout is how long the API server may work on a write that a webhook makes slow: as long as it does by itself (--request-timeout of
// kube-apiserver), and so for as long as it takes for kube-controller-manager, which sets no limit of its own.
const SlowWriteTimeout = 60 * time.Second

// How many slow writes may be under way, of one set and in all.
const slowOfSet, slowInAll = 64, 256

// SlowLane sends the writes that no pass waits for. A write has 5 seconds (writeTimeout); where one of a set has timed out, the next ones of
// its kind come here and have SlowWriteTimeout: a webhook that takes its time, or never answers and may be ignored, makes no pod impossible. What is under
// way holds its own pod or node, by what the index says of writes without an answer. Before the first is sent Hold is called, so that a later leader waits for it.
type SlowLane struct {
	// Pods are those of a client with SlowWriteTimeout.
	Pods Pods
	// Hold is called before each write; one whose Hold fails is not sent. Free is called when none is under way any more, and idle says whether
	// that is still so.
	Hold func(ctx context.Context) error
	Free func(ctx context.Context, idle func() bool)

	mu       sync.Mutex
	slow     map[slowKind]map[string]bool
	underWay map[fleet.Key]int
	all      int
	running  sync.WaitGroup
}

// slowKind is what is slow: the writes of a set with one verb.
type slowKind struct {
	key  fleet.Key
	verb string
}

// takes is whether the next write of that kind is one for the lane.
func (l *SlowLane) takes(key fleet.Key, verb string) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.slow[slowKind{key, verb}]) > 0
}

// heard takes an answer to a write for a node.
func (l *SlowLane) heard(kind slowKind, node string, err error) {
	if l == nil || !apply.TimedOut(err) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slow == nil {
		l.slow = map[slowKind]map[string]bool{}
	}
	if l.slow[kind] == nil {
		l.slow[kind] = map[string]bool{}
	}
	l.slow[kind][node] = true
}

// recovers notes that the API server has answered in time: the writes of a kind are no longer slow when all nodes have shown that for which one was.
func (l *SlowLane) recovers(kind slowKind, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.slow[kind], node); len(l.slow[kind]) == 0 {
		delete(l.slow, kind)
	}
}

// giveUp takes the writes of a kind out of the lane until the next one of them times out.
func (l *SlowLane) giveUp(kind slowKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.slow, kind)
}

// Forget is for a set that is gone.
func (l *SlowLane) Forget(key fleet.Key) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.slow, func(kind slowKind, _ map[string]bool) bool { return kind.key == key })
}

// enter is whether there is room for one more write of the set.
func (l *SlowLane) enter(key fleet.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= slowInAll || l.underWay[key] >= slowOfSet {
		return false
	}
	if l.underWay == nil {
		l.underWay = map[fleet.Key]int{}
	}
	l.underWay[key]++
	l.all++
	return true
}

func (l *SlowLane) leave(ctx context.Context, key fleet.Key) {
	l.mu.Lock()
	l.all--
	if l.underWay[key]--; l.underWay[key] == 0 {
		delete(l.underWay, key)
	}
	l.mu.Unlock()
	if l.idle() && ctx.Err() == nil { // what was cut off may still take effect
		l.Free(ctx, l.idle)
	}
}

func (l *SlowLane) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all == 0
}

// Wait returns when no write is under way any more. It is for the end, when their context has ended.
func (l *SlowLane) Wait() {
	if l != nil {
		l.running.Wait()
	}
}

// slowWrite is a write for the lane. Everything in it is its own: the pass and its Snapshot are over long before the answer comes.
type slowWrite struct {
	verb, what, node, pod string
	uid                   types.UID  // empty for a create
	before                *fleet.Pod // the pod before an edit
	send                  func(ctx context.Context) (*corev1.Pod, error)
	// begun records that there is no answer until then, answered what the answer means.
	begun    func(until rollout.Time)
	answered func(answer apply.Answer, pod *corev1.Pod)
	// done and failed send events.
	done   func()
	failed func(err error)
}

// sendSlowly sends a write that no pass waits for. It is left to the next pass when there is no room.
func (r *run) sendSlowly(ctx context.Context, w *slowWrite) {
	e, l := r.e, r.e.Slow
	if !l.enter(e.key) {
		r.leave()
		return
	}
	w.begun(e.Pace.now().Add(SlowWriteTimeout + writeTimeout))
	l.running.Go(func() {
		defer l.leave(ctx, e.key)
		defer e.Index.Notify(e.key)
		if err := e.mayGo(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "A slow write is not sent", "set", e.key.String(), "pod", w.pod)
			_ = Sleep(ctx, busyPause)
			l.giveUp(slowKind{e.key, w.verb}) // the next one has 5 seconds again, which is better than nothing
			w.answered(apply.Busy, nil)
			return
		}
		began := e.Pace.now()
		pod, err := w.send(ctx)
		err = apply.Brief(err)
		if e.Pace.now().Sub(began) < writeTimeout {
			l.recovers(slowKind{e.key, w.verb}, w.node)
		}
		e.slowAnswer(ctx, w, pod, err)
	})
}

// busyPause is how soon a slow write is tried again that could not be sent.
const busyPause = time.Second

func (e sender) slowAnswer(ctx context.Context, w *slowWrite, pod *corev1.Pod, err error) {
	answer := apply.OfDelete(err)
	if w.verb == verbCreate {
		answer = apply.OfCreate(err)
	}
	e.Count(w.verb, answer)
	switch answer {
	case apply.Done:
		e.Index.Accept(e.key, w.node)
		w.done()
	case apply.Refused, apply.Unclear:
		e.remember(w.uid, &Refusal{what: w.what, node: w.node, pod: w.pod, err: err, before: w.before})
		w.failed(err)
	case apply.Busy:
		_ = Sleep(ctx, busyPause)
	case apply.Differs:
		w.failed(err)
	}
	w.answered(answer, pod)
}

// mayGo is whether a slow write may be sent now: this process leads, a later leader knows that it has to wait, and the client's limit has room.
func (e sender) mayGo(ctx context.Context) error {
	if err := e.Slow.Hold(ctx); err != nil {
		return fmt.Errorf("announcing a slow write: %w", err)
	}
	if err := e.Pace.wait(ctx); err != nil {
		return err
	}
	if e.Pace.Leads != nil && !e.Pace.Leads() {
		return apply.ErrNotLeading
	}
	return nil
}

// The verbs of writes, as they are counted.
const (
	verbCreate = "create"
	verbDelete = "delete"
	verbPatch  = "patch"
)

// createSlowly is a create that no pass waits for.
func (r *run) createSlowly(ctx context.Context, i int, params name) outcome {
	a, e, t, object := r.job.Plan.Actions[i], r.e.goesOn(), r.job.Texts, r.job.Object
	if r.overtaken(a) {
		r.leave()
		return createGoesOn
	}
	pod, key, warn := r.job.Maker(a.Revision).Pod(params.Params), r.job.Key, r.warner(a.Node)
	pending := fleet.PendingCreate{Node: params.Node, Pod: params.PodName, Slow: true}
	r.sendSlowly(ctx, &slowWrite{
		verb: verbCreate, what: "creating a pod", node: params.Node, pod: params.PodName,
		send: func(ctx context.Context) (*corev1.Pod, error) { return e.Slow.Pods.Create(ctx, pod) },
		begun: func(until rollout.Time) {
			pending.Until = until
			e.Index.Pend(key, pending)
		},
		answered: func(answer apply.Answer, created *corev1.Pod) {
			switch answer {
			case apply.Done:
				e.fold(created)
				e.Index.Unpend(key, params.Node)
			case apply.Refused, apply.Busy, apply.Ended:
				e.Index.Unpend(key, params.Node)
			default: // a look finds out whether it is there, and whose
				pending.Slow = false
				e.Index.Pend(key, pending)
			}
		},
		done:   func() { e.Events.Eventf(object, corev1.EventTypeNormal, t.Created, t.CreatedText, params.PodName) },
		failed: func(err error) { warn(t.CreateFailed, t.CreateFailedText, err) },
	})
	return createGoesOn
}

// deleteSlowly is a delete that no pass waits for.
func (r *run) deleteSlowly(ctx context.Context, a rollout.Action) {
	e, t, object, warn := r.e.goesOn(), r.job.Texts, r.job.Object, r.warner(a.Node)
	uid := types.UID(a.UID)
	if r.overtaken(a) {
		e.Index.Spare(uid)
		r.leave()
		return
	}
	begun := false
	r.sendSlowly(ctx, &slowWrite{
		verb: verbDelete, what: "deleting pod " + a.Pod, node: r.job.Snapshot.Nodes[a.Node].Name, pod: a.Pod, uid: uid,
		send: func(ctx context.Context) (*corev1.Pod, error) {
			return nil, e.Slow.Pods.Delete(ctx, e.key.Namespace, a.Pod, uid)
		},
		begun: func(until rollout.Time) {
			begun = true
			e.Index.Unsettle(uid, until)
		},
		answered: func(answer apply.Answer, _ *corev1.Pod) {
			switch answer { // else a look finds out whether it is gone
			case apply.Done:
				e.Index.Settle(uid)
			case apply.Refused, apply.Busy:
				e.Index.Settle(uid)
				e.Index.Spare(uid)
			}
		},
		done:   func() { e.Events.Eventf(object, corev1.EventTypeNormal, t.Deleted, t.DeletedText, a.Pod) },
		failed: func(err error) { warn(t.DeleteFailed, t.DeleteFailedText, err) },
	})
	if !begun {
		e.Index.Spare(uid)
	}
}

// patchSlowly is an edit that no pass waits for. What comes after it for the same pod is left to a pass that has seen its answer.
func (r *run) patchSlowly(ctx context.Context, a rollout.Action, edit dialect.Edit, before *corev1.Pod) {
	e, tell, uid := r.e.goesOn(), r.editTeller(a), types.UID(a.UID)
	patch := PodPatch{Namespace: r.job.Key.Namespace, Pod: a.Pod, Of: edit.Of, Body: edit.Patch}
	r.sendSlowly(ctx, &slowWrite{
		verb: verbPatch, what: fmt.Sprintf("%s of pod %s", a.Kind, a.Pod), node: r.job.Snapshot.Nodes[a.Node].Name, pod: a.Pod, uid: uid, before: e.record(before),
		send:  func(ctx context.Context) (*corev1.Pod, error) { return e.Slow.Pods.Patch(ctx, patch) },
		begun: func(until rollout.Time) { e.Index.Doubt(uid, until, takesAway(a, edit)) },
		answered: func(answer apply.Answer, patched *corev1.Pod) {
			switch answer { // else a look finds out what the pod is like
			case apply.Done:
				e.fold(patched)
				e.Index.Dispel(uid)
			case apply.Refused, apply.Busy, apply.Differs:
				e.Index.Dispel(uid)
			}
		},
		done:   func() {},
		failed: tell,
	})
}
