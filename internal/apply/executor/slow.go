// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// SlowWriteTimeout is how long the API server may work on a write that a webhook makes slow: as long as it does by itself (--request-timeout of
// kube-apiserver), and so for as long as it takes for kube-controller-manager, which sets no limit of its own.
const SlowWriteTimeout = 60 * time.Second

// The maximum number of slow writes in flight, in total and for one namespace. A namespace takes at most as
// many places as it leaves free for others, and so does a set with the places of its namespace: so one
// namespace gets at most half of all places, one set half of that, and a set without slow writes finds a
// place.
const slowInAll, slowOfSpace = 256, 128

// enoughFast is the number of consecutive fast answers after which the writes of a kind no longer count as
// slow, except those for nodes with a slow write; maxSlowNodes limits how many such nodes are remembered for
// each kind.
const enoughFast, maxSlowNodes = 8, 1024

// SlowLane sends the writes that no pass waits for. A write has 5 seconds (writeTimeout); where one of a set has timed out, the next ones of
// its kind come here and have SlowWriteTimeout: a webhook that takes its time, or never answers and may be ignored, makes no pod impossible. What is under
// way holds its own pod or node, by what the index says of writes without an answer. Before the first is sent Hold is called, so that a later leader waits for it.
type SlowLane struct {
	// Pods writes pods with a client that has SlowWriteTimeout.
	Pods Pods
	// Hold is called before each write; if it fails, the write is not sent. Free is called when none is in flight any more, and idle returns whether
	// that is still so.
	Hold func(ctx context.Context) error
	Free func(ctx context.Context, idle func() bool)

	mu      sync.Mutex
	slow    map[slowKind]*slowness
	ofSet   map[clustercache.Key]int
	ofSpace map[string]int
	all     int
	running sync.WaitGroup
}

// slowKind identifies writes that can be slow: those of a set with one verb.
type slowKind struct {
	key  clustercache.Key
	verb string
}

// slowness is what is known about the writes of a kind: for which nodes one was slow, and how many in a row were
// fast since. A deleted node proves nothing any more, so it does not keep the others in the lane.
type slowness struct {
	nodes map[string]bool
	fast  int
}

// takes reports whether the next write of that kind for a node goes to the lane.
func (l *SlowLane) takes(kind slowKind, node string) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slow[kind]
	return s != nil && (s.nodes[node] || s.fast < enoughFast)
}

// heard records an answer to a write that a pass has waited for.
func (l *SlowLane) heard(kind slowKind, node string, err error) {
	if l == nil || !apply.TimedOut(err) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slow == nil {
		l.slow = map[slowKind]*slowness{}
	}
	s := l.slow[kind]
	if s == nil || len(s.nodes) >= maxSlowNodes {
		s = &slowness{nodes: map[string]bool{}}
		l.slow[kind] = s
	}
	s.nodes[node], s.fast = true, 0
}

// answered notes whether the API server has answered a write of the lane in time. The writes of a kind are no
// longer slow when the slow nodes have all had a fast answer.
func (l *SlowLane) answered(kind slowKind, node string, inTime bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slow[kind]
	switch {
	case s == nil:
	case !inTime:
		s.fast = 0
	default:
		s.fast++
		if delete(s.nodes, node); len(s.nodes) == 0 {
			delete(l.slow, kind)
		}
	}
}

// giveUp takes the writes of a kind out of the lane until the next one of them times out.
func (l *SlowLane) giveUp(kind slowKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.slow, kind)
}

// Forget is for a set that is gone.
func (l *SlowLane) Forget(key clustercache.Key) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.slow, func(kind slowKind, _ *slowness) bool { return kind.key == key })
}

// enter reports whether there is room for one more write of the set.
func (l *SlowLane) enter(key clustercache.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ofSpace := l.ofSpace[key.Namespace]
	if l.all+ofSpace >= slowInAll || ofSpace+l.ofSet[key] >= slowOfSpace {
		return false
	}
	if l.ofSet == nil {
		l.ofSet, l.ofSpace = map[clustercache.Key]int{}, map[string]int{}
	}
	l.ofSet[key]++
	l.ofSpace[key.Namespace]++
	l.all++
	return true
}

// leave frees the place of a write.
func (l *SlowLane) leave(key clustercache.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.ofSet[key]--; l.ofSet[key] == 0 {
		delete(l.ofSet, key)
	}
	if l.ofSpace[key.Namespace]--; l.ofSpace[key.Namespace] == 0 {
		delete(l.ofSpace, key.Namespace)
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

// slowWrite is a write for the lane. It shares nothing with the pass and its Snapshot, which have ended long before the answer comes.
type slowWrite struct {
	verb, what, node, pod string
	uid                   types.UID         // empty for a create
	before                *inflight.Content // the pod before an edit
	action                rollout.Action    // of the plan; none for a claim
	more                  bool              // other writes of the action follow it
	claim                 bool              // an adoption or a release: what is refused is not remembered for the node
	void                  func() bool       // whether there is no reason for it any more, asked just before it is sent; nil for never
	send                  func(ctx context.Context) (*corev1.Pod, error)
	// meaning returns what the answer means; it may need to read the pod.
	meaning func(ctx context.Context, err error) (apply.Answer, error)
	// check returns an error if the pod of a successful answer differs from what was requested; the error counts as a refusal. It may be nil.
	check func(pod *corev1.Pod) error
	until rollout.Time // see beginSlowly
	// begun records that no answer is known until then, and answered handles the answer. If answered returns true, the write is sent once more.
	begun    func(until rollout.Time)
	answered func(ctx context.Context, answer apply.Answer, err error, pod *corev1.Pod) (again bool)
	// done and failed send events.
	done   func()
	failed func(err error)
}

// sendSlowly sends a write that no pass waits for. It returns false when there is no room.
func (e sender) sendSlowly(ctx context.Context, w *slowWrite) bool {
	l := e.Slow
	if !l.enter(e.key) {
		return false
	}
	e.beginSlowly(w)
	l.running.Go(func() {
		for e.sendOnce(ctx, w) {
			e.beginSlowly(w)
		}
		l.leave(e.key)
		e.Index.Notify(e.key)             // there is an answer, and room for the next one
		if l.idle() && ctx.Err() == nil { // what was cut off may still take effect
			l.Free(ctx, l.idle)
		}
	})
	return true
}

// beginSlowly records until when the API server may be at work on a slow write that is sent now: first when the write has a place in the lane, and again just before
// it is sent, which may be much later.
func (e sender) beginSlowly(w *slowWrite) {
	w.until = e.Pace.now().Add(SlowWriteTimeout + writeTimeout)
	w.begun(w.until)
}

// sendOnce sends a slow write and takes its answer. It returns true when it is to be sent again. A write whose time is up before it is sent is not sent: a
// pass may have found that it took no effect, and may have decided something else since.
func (e sender) sendOnce(ctx context.Context, w *slowWrite) (again bool) {
	if err := e.mayGo(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "A slow write is not sent", "set", e.key.String(), "pod", w.pod)
		_ = Sleep(ctx, busyPause)
		e.Slow.giveUp(slowKind{e.key, w.verb}) // the next one has 5 seconds again, which is better than nothing
		return w.answered(ctx, apply.Busy, err, nil)
	}
	if e.Pace.now() >= w.until.Add(-writeTimeout) { // what is recorded ends in a moment, and a pass looks then
		klog.FromContext(ctx).Info("A slow write has waited for too long and is not sent", "set", e.key.String(), "pod", w.pod)
		return false
	}
	if w.void != nil && w.void() {
		return w.answered(ctx, apply.Busy, nil, nil) // it was not sent, and the next pass decides again
	}
	e.beginSlowly(w)
	began := e.Pace.now()
	pod, err := w.send(ctx)
	e.Slow.answered(slowKind{e.key, w.verb}, w.node, e.Pace.now().Sub(began) < writeTimeout)
	return e.slowAnswer(ctx, w, pod, apply.Brief(err))
}

// busyPause is how soon a slow write is tried again that could not be sent.
const busyPause = time.Second

func (e sender) slowAnswer(ctx context.Context, w *slowWrite, pod *corev1.Pod, err error) (again bool) {
	answer, err := w.meaning(ctx, err)
	if answer == apply.Done && w.check != nil {
		if err = w.check(pod); err != nil {
			e.observe(pod)
			answer = apply.Refused
		}
	}
	switch answer {
	case apply.Done:
		switch {
		case w.more: // the action is not done yet
		case w.action.TakesBack:
			e.Index.Accept(e.key, w.node, w.action.Kind)
		case !w.action.Kind.Preliminary():
			e.Index.Accept(e.key, w.node, 0)
		}
		w.done()
	case apply.Refused, apply.Unclear:
		if !w.claim {
			e.remember(w.uid, w.refusal(answer, err))
		}
		w.failed(err)
	case apply.Busy:
		_ = Sleep(ctx, busyPause)
	case apply.Differs:
		if w.verb == verbDelete {
			break // it is neither refused nor worth an event
		}
		if !w.claim && e.Index.Conflicts(w.uid, inflight.Edit)+1 >= mostDiffering {
			e.remember(w.uid, w.refusal(answer, err))
		}
		w.failed(err)
	}
	return w.answered(ctx, answer, err, pod)
}

func (w *slowWrite) refusal(answer apply.Answer, err error) *Refusal {
	refusal := &Refusal{what: w.what, node: w.node, pod: w.pod, err: err, of: refusedAs(w.action)}
	if answer == apply.Unclear {
		refusal.before = w.before
	}
	return refusal
}

// mayGo reports whether a slow write may be sent now: this process leads, a later leader knows that it must wait, the API server bears more writes, and the client's limit has room.
func (e sender) mayGo(ctx context.Context) error {
	if err := e.Slow.Hold(ctx); err != nil {
		return fmt.Errorf("announcing a slow write: %w", err)
	}
	if err := e.Pace.room(ctx); err != nil {
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

	verbAnnounce = "announce"

	// Reads are not counted; verbSee is faster than verbGet.
	verbGet, verbSee = "get", "see"
)

// laneFull notes that a write has found no room in the lane.
func (r *run) laneFull() { r.note(func(result *Result) { result.LaneFull = true }) }

// unlessChanged is void for a slow write, which must not be sent either when another controller has begun to work on the set since, or a user has edited or
// deleted it: it may have waited for a minute, and the pass after the edit may find that it is paused.
func (r *run) unlessChanged(void func() bool) func() bool {
	mayWrite, index, key, decided := r.job.MayWrite, r.e.Index, r.job.Key, r.job.Workload
	return func() bool {
		w := index.Workload(key)
		edited := w == nil || w.UID != decided.UID || w.Generation != decided.Generation
		return edited || !mayWrite() || void != nil && void()
	}
}

// deleteSlowly is a delete that no pass waits for.
func (r *run) deleteSlowly(ctx context.Context, a rollout.Action) {
	e, t, object, warn := r.e.continuing(), r.job.Texts, r.job.Object, r.warner(a.Node)
	d := r.deletion(a)
	uid := d.uid
	w := inflight.Write{Verb: inflight.Delete, UID: uid}
	void := r.overtaken(a)
	if void() {
		e.Index.Resolve(w, inflight.NoEffect)
		r.leaveForNextPass()
		return
	}
	room := e.sendSlowly(ctx, &slowWrite{
		verb: verbDelete, what: "deleting pod " + a.Pod, node: r.job.Snapshot.Nodes[a.Node].Name, pod: a.Pod, uid: uid, action: a, void: r.unlessChanged(void),
		send: func(ctx context.Context) (*corev1.Pod, error) {
			return nil, d.send(ctx, e.Slow.Pods)
		},
		meaning: d.meaning,
		begun: func(until rollout.Time) {
			e.Index.Begin(inflight.Write{Verb: inflight.Delete, UID: uid, Until: until})
		},
		answered: func(_ context.Context, answer apply.Answer, _ error, _ *corev1.Pod) bool {
			switch answer { // otherwise a read shows whether it is gone
			case apply.Done:
				e.Index.Resolve(w, inflight.TookEffect)
			case apply.Gone:
				e.Index.ConfirmDeleted(uid)
			case apply.Differs: // the pass that follows decides about the pod as it is
				d.resolve(answer)
			case apply.Refused, apply.Busy:
				e.Index.Resolve(w, inflight.NoEffect)
			}
			return false
		},
		done:   func() { e.Events.Eventf(object, corev1.EventTypeNormal, t.Deleted, t.DeletedText, a.Pod) },
		failed: func(err error) { warn(t.DeleteFailed, t.DeleteFailedText, err) },
	})
	if !room {
		e.Index.Resolve(w, inflight.NoEffect)
		r.laneFull()
	}
}

// patchSlowly sends an edit that no pass waits for. Later edits of the same pod are left to a pass that has seen its answer.
func (r *run) patchSlowly(ctx context.Context, a rollout.Action, edit tried, void func() bool) {
	if void != nil && void() {
		r.leaveForNextPass()
		return
	}
	e, uid := r.e.continuing(), types.UID(a.UID)
	w := e.newSlowPatch(verbPatch, PodPatch{Namespace: r.job.Key.Namespace, Pod: a.Pod, Of: edit.Of, Body: edit.Patch}, uid)
	w.what, w.node, w.action = fmt.Sprintf("%s of pod %s", a.Kind, a.Pod), r.job.Snapshot.Nodes[a.Node].Name, a
	w.more = edit.more
	w.before, w.void, w.check, w.failed = e.record(edit.before), r.unlessChanged(void), r.checkRevision(a, edit.Edit), r.editTeller(a)
	w.begun = func(until rollout.Time) {
		e.Index.Begin(inflight.Write{Verb: inflight.Edit, UID: uid, Until: until, Takes: takesAway(a, edit.Edit)})
	}
	if !e.sendSlowly(ctx, w) {
		r.laneFull()
	}
}

// checkRevision returns a function that checks whether the pod has the new revision after the last edit of a change in place; nil for other edits.
func (r *run) checkRevision(a rollout.Action, edit dialect.Edit) func(pod *corev1.Pod) error {
	hash := r.hash(a)
	if a.Kind != rollout.Patch || edit.Of != dialect.Whole || hash == "" || !strings.Contains(string(edit.Patch), hash) {
		return nil
	}
	return func(pod *corev1.Pod) error { return keptOld(pod, hash) }
}

// newSlowPatch is a patch of a pod for the lane. It has no events, and its answer settles an edit; the caller adds the rest.
func (e sender) newSlowPatch(verb string, patch PodPatch, uid types.UID) *slowWrite {
	edit := inflight.Write{Verb: inflight.Edit, UID: uid}
	return &slowWrite{
		verb: verb, pod: patch.Pod, uid: uid,
		send: func(ctx context.Context) (*corev1.Pod, error) { return e.Slow.Pods.Patch(ctx, patch) },
		meaning: func(ctx context.Context, err error) (apply.Answer, error) {
			answer := apply.OfDelete(err)
			e.Count(verb, answer)
			if answer == apply.Gone && !e.gone(ctx, patch.Pod, uid) {
				answer = apply.Refused // the pod is still there
			}
			return answer, err
		},
		answered: func(_ context.Context, answer apply.Answer, _ error, patched *corev1.Pod) bool {
			switch answer { // after another answer a read shows what the pod is like
			case apply.Done:
				e.observe(patched)
				e.Index.Resolve(edit, inflight.Seen)
			case apply.Refused, apply.Busy:
				e.Index.Resolve(edit, inflight.Seen)
			case apply.Differs:
				e.Index.Resolve(edit, inflight.Seen)
				e.Index.Resolve(edit, inflight.Differed)
			}
			return false
		},
		done: func() {},
	}
}
