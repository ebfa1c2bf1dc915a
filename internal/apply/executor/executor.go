// SPDX-License-Identifier: Apache-2.0

// Package executor carries out Plans: it creates and deletes pods, observes every answer in the cache at once, and
// sends events and counts writes after they have succeeded. It is the only writer of pods.
package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/podtemplate"
	"everynode.dev/everynode/internal/rollout"
)

// blockFor is how long no pod is created on a node after another pod had the name of the new one.
const blockFor = 30 * time.Second

// Executor carries out Plans. All fields but the last are required.
type Executor struct {
	Index *clustercache.Index
	Pods  Pods
	// Pace is shared by all sets.
	Pace   *Pace
	Events record.EventRecorder
	Clock  clock.PassiveClock
	// Count is called for every write: verb "create" or "delete", and the answer.
	Count func(verb string, answer apply.Answer)
	// Slow sends slow writes; if nil, a write that takes longer than 5 seconds cannot succeed.
	Slow *SlowLane
}

// Job is one plan to be carried out.
type Job struct {
	Key      clustercache.Key
	Workload *dialect.Workload
	// Object is the set as the subject of events.
	Object   runtime.Object
	Owner    metav1.OwnerReference
	Snapshot rollout.Snapshot
	// Template is the index of the revision that the template describes.
	Template int
	Plan     rollout.Plan
	// Maker makes pods of the revision with that index.
	Maker func(revision int) *podtemplate.Maker
	// Edits is nil for a dialect without edits; Change returns what a Patch from one revision to another changes.
	Edits dialect.Edits
	// Announce makes the edits for the announcements of the plan; nil for a dialect that has none.
	Announce dialect.AnnounceFunc
	// MayWrite is asked before every write: another controller may have become active.
	MayWrite func() bool
	Change   func(from, to int) dialect.Change
	Texts    *dialect.Texts
	// Others reports whether other sets wait for a pass.
	Others func() bool
	// Batch is how many creates are sent first, at least 1.
	Batch int
}

// Result is the result of a Job.
type Result struct {
	// Outcomes has one outcome for each action of the plan, in the same order; nil if the plan has no actions.
	Outcomes []rollout.Outcome
	// Batch is the size of the first batch of creates of the next pass.
	Batch int
	// Left is set when some writes were left out because other sets wait. Another pass must follow then.
	Left bool
	// LaneFull is set when a write has found no room in the SlowLane. The set must be enqueued again then; it is also enqueued when one of its own writes ends.
	LaneFull bool
	// Ended is set when a create could not be made because its namespace is being deleted. There is no hurry then.
	Ended bool
	// Skipped is set when creates were left out because the API server refused all that were sent. Another pass must follow soon.
	Skipped bool
	// Unblock is the earliest time at which a blocked node may be tried again: a node where another pod is in
	// the way, or where a write was refused; 0 if there is none.
	Unblock rollout.Time
}

// Run carries out the plan and returns when every write has been answered, or is in the SlowLane. It changes neither the plan nor the Snapshot. The
// error joins everything that was refused or unclear; the pass is to be repeated then, with a delay.
func (e *Executor) Run(ctx context.Context, job *Job) (Result, error) {
	if len(job.Plan.Actions)+len(job.Plan.Announcements) == 0 {
		return Result{Batch: job.Batch}, nil
	}
	var creates, deletes []int
	for i, a := range job.Plan.Actions {
		switch a.Kind {
		case rollout.Create:
			creates = append(creates, i)
		case rollout.Delete:
			deletes = append(deletes, i)
			w := inflight.Write{Verb: inflight.Delete, UID: types.UID(a.UID), At: rollout.Time(e.Clock.Now().UnixNano())}
			if a.Reason == rollout.Recreating {
				w.Next = job.Snapshot.Revisions[job.Snapshot.Set.Update].Name
			}
			e.Index.Begin(w)
		}
	}
	slice := e.newSlice(job.Others)
	r := &run{e: sender{Executor: e, key: job.Key, late: slice.late}, slice: slice, job: job}
	r.result.Outcomes = make([]rollout.Outcome, len(job.Plan.Actions))
	var wg sync.WaitGroup
	others := sync.OnceFunc(func() {
		r.editAll(ctx, &wg)
		for _, i := range deletes {
			r.asDecided(job.Plan.Actions[i]).inTurn(&wg, func(e sender) { r.deleteOne(ctx, e, i) })
		}
		r.announceAll(ctx, &wg)
	})
	r.createAll(ctx, creates, others)
	others()
	wg.Wait()
	r.closeRefusals()
	r.sendNotes()
	return r.result, errors.Join(firstOf(r.errs)...)
}

// run is one plan being carried out.
type run struct {
	e     sender
	slice *slice
	job   *Job

	mu     sync.Mutex
	result Result
	errs   []error
	// short reports whether a create was left out because the time of the pass had ended.
	short bool
}

// note changes what is noted of the run.
func (r *run) note(change func(*Result)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.result)
}

// fail notes why the pass is to be repeated.
func (r *run) fail(err error) { r.note(func(*Result) { r.errs = append(r.errs, err) }) }

// leaveForNextPass notes that an action is left to the next pass.
func (r *run) leaveForNextPass() { r.note(func(result *Result) { result.Left = true }) }

// finish notes that an action took effect.
func (r *run) finish(i int) { r.note(func(result *Result) { result.Outcomes[i].Done = true }) }

// firstOf cuts errors down to the first few in the order of their words: a hundred pods refused for one reason are one error,
// and it says the same when it happens again.
func firstOf(errs []error) []error {
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs[:min(3, len(errs))]
}

// deleteOne carries out a delete, of which the index knows already.
func (r *run) deleteOne(ctx context.Context, e sender, i int) {
	a := r.job.Plan.Actions[i]
	d, kind, node := r.deletion(a), slowKind{r.job.Key, verbDelete}, r.job.Snapshot.Nodes[a.Node].Name
	w := inflight.Write{Verb: inflight.Delete, UID: d.uid}
	if !r.job.MayWrite() {
		e.Index.Resolve(w, inflight.NoEffect)
		return
	}
	if e.Slow.takes(kind, node) {
		r.deleteSlowly(ctx, a)
		return
	}
	err := e.send(ctx, verbDelete, func() error { return d.send(ctx, e.Pods) })
	if errors.Is(err, errLate) {
		e.Index.Resolve(w, inflight.NoEffect)
		r.leaveForNextPass()
		return
	}
	answer, err := d.meaning(ctx, err)
	e.Slow.heard(kind, node, err)
	if answer == apply.Gone {
		e.Index.ConfirmDeleted(d.uid)
		return
	}
	d.resolve(answer)
	t := r.job.Texts
	switch answer {
	case apply.Done:
		r.finish(i)
		e.Events.Eventf(r.job.Object, corev1.EventTypeNormal, t.Deleted, t.DeletedText, a.Pod)
	case apply.Differs: // the pod has been read, and the next pass decides about it as it is
		r.leaveForNextPass()
	case apply.Busy: // the pass is repeated; neither the set nor the pod is to blame
		r.fail(fmt.Errorf("deleting pod %s: %w", a.Pod, err))
	default: // refused, or not clear
		r.warner(a.Node)(t.DeleteFailed, t.DeleteFailedText, err)
		r.refuse(i, answer, &Refusal{what: "deleting pod " + a.Pod, err: err})
	}
}

// createAll calls others when the first creates are queued: writes that restore pods go before writes that remove more, because the latter may hang.
func (r *run) createAll(ctx context.Context, actions []int, others func()) {
	start := apply.NewSlowStart(len(actions), r.job.Batch)
	defer func() { r.result.Batch = start.Size() }()
	for at := 0; at < len(actions); {
		n := start.Next(r.slice.most())
		if n == 0 {
			return
		}
		var wg sync.WaitGroup
		var failed, refused atomic.Int32
		for _, i := range actions[at : at+n] {
			action := r.job.Plan.Actions[i]
			r.asDecided(action).inTurn(&wg, func(e sender) {
				node := &r.job.Snapshot.Nodes[action.Node]
				switch r.createOne(ctx, e, i, name{Params: r.params(node.Name, action.Revision), counted: countedOn(node)}) {
				case createFailed:
					failed.Add(1)
				case createRefused:
					refused.Add(1)
				}
			})
		}
		others()
		wg.Wait()
		at += n
		skipped := 0
		switch {
		case failed.Load() > 0:
			skipped = start.Fail()
		case refused.Load() > 0:
			skipped = start.Refuse(int(refused.Load()), n)
			r.result.Skipped = skipped > 0
		case r.short:
			start.Stop() // there is no more time, which says nothing about the creates
		}
		if skipped > 0 {
			klog.FromContext(ctx).V(2).Info("Left out creates of this pass", "set", r.job.Key.String(), "skipped", skipped)
		}
	}
}

// outcome is what the answer to a create says about further ones.
type outcome uint8

const (
	createGoesOn  outcome = iota // nothing
	createRefused                // they may be refused as well
	createFailed                 // they are not worth trying in this pass
)

// createOne carries out a create, with that name.
func (r *run) createOne(ctx context.Context, e sender, i int, params name) outcome {
	if !r.job.MayWrite() {
		return createFailed
	}
	a, kind, node := r.job.Plan.Actions[i], slowKind{r.job.Key, verbCreate}, params.Node
	if e.Slow.takes(kind, node) {
		return r.createSlowly(ctx, i, params)
	}
	w := inflight.Write{Verb: inflight.Create, Set: e.key, Node: node, Pod: params.PodName}
	e.begin(&w)
	var pod *corev1.Pod
	err := e.send(ctx, verbCreate, func() (err error) {
		pod, err = create(ctx, e.Pods, r.job.Maker(a.Revision), params.Params)
		return err
	})
	if errors.Is(err, errLate) {
		e.Index.Resolve(w, inflight.NoEffect)
		r.note(func(result *Result) { result.Left, r.short = true, r.short || r.slice.over() })
		return createGoesOn
	}
	answer := apply.OfCreate(err)
	e.Count(verbCreate, answer)
	e.Slow.heard(kind, node, err)
	if answer == apply.Done {
		e.observe(pod)
	}
	e.resolve(w, answer)
	t := r.job.Texts
	switch answer {
	case apply.Done:
		r.finish(i)
		e.Events.Eventf(r.job.Object, corev1.EventTypeNormal, t.Created, t.CreatedText, params.PodName)
		return createGoesOn
	case apply.Exists:
		return r.claim(ctx, e, i, params)
	case apply.Ended:
		r.note(func(result *Result) { result.Ended = true })
		return createFailed // everything in this namespace is about to go; neither an error nor worth an event (as upstream)
	case apply.Busy: // the pass is repeated; neither the set nor the node is to blame
		r.fail(fmt.Errorf("creating a pod: %w", err))
		return createFailed
	case apply.Refused:
		r.warner(a.Node)(t.CreateFailed, t.CreateFailedText, err)
		r.refuse(i, answer, &Refusal{what: "creating a pod", pod: params.PodName, err: err})
		return createRefused
	default:
		r.warner(a.Node)(t.CreateFailed, t.CreateFailedText, err)
		r.refuse(i, answer, &Refusal{what: "creating a pod", pod: params.PodName, err: err})
		return createFailed
	}
}

// observe takes a pod that a daemon set owns, or may adopt, in as an answer has shown it; ours reports whether it is such a pod.
func (e sender) observe(pod *corev1.Pod) (rec clustercache.Pod, ours bool) {
	if rec, ours = e.Index.PodFrom(pod); ours {
		e.Index.ObservePod(rec)
	}
	return rec, ours
}

// claim looks at the pod that has the name already: an earlier create of ours whose answer was lost, or one in the way.
func (r *run) claim(ctx context.Context, e sender, i int, p name) outcome {
	h, err := e.holder(ctx, p)
	switch {
	case err != nil:
		r.fail(err)
	case h.pod == nil: // the next pass creates it; the end of a pod of another owner does not trigger a pass
		r.fail(fmt.Errorf("another pod had the name %s and is gone now; trying again", p.PodName))
	case h.why == nil:
		r.finish(i)
	case p.inTheWay(r.job.Workload, h.pod):
		return r.createOne(ctx, e, i, freeName(r.job.Workload, h.pod, p))
	case h.stale:
		r.fail(h.why)
	default:
		node, t := r.job.Plan.Actions[i].Node, r.job.Texts
		r.blocked(i, h.why.Error(), e.block(p.Node, h.why.Error()))
		r.warner(node)(t.CreateFailed, t.CreateFailedText, h.why)
	}
	return createGoesOn
}

// holder is the existing pod with the name of the pod to create; nil if there is none. why is the reason why
// it is not the wanted pod, and stale reports whether it is a terminating pod of the set.
type holder struct {
	pod   *corev1.Pod
	why   error
	stale bool
}

// holder looks at the pod that has a name, and takes it in, also if it has no owner: an orphan that the read shows as terminating must not be adopted because a list
// that is older than the read does not show that yet.
func (e sender) holder(ctx context.Context, p name) (holder, error) {
	pod, err := e.continuing().find(ctx, p.Node, p.PodName)
	if err != nil {
		return holder{}, fmt.Errorf("looking at pod %s: %w", p.PodName, err)
	}
	if pod == nil {
		return holder{}, nil
	}
	rec, _ := e.observe(pod)
	rec.Name = pod.Name
	stale, why := apply.Wanted{Owner: p.Owner.UID, Advanced: clustercache.Advanced(p.Owner), Node: p.Node, Hash: p.Hash}.Check(rec)
	return holder{pod: pod, why: why, stale: stale}, nil
}

// block keeps pods from being created for a node for a while, and returns when that ends.
func (e sender) block(node, why string) (until rollout.Time) {
	now := rollout.Time(e.Clock.Now().UnixNano())
	until = now.Add(blockFor)
	e.Index.Block(inflight.Write{Verb: inflight.Create, Set: e.key, Node: node}, inflight.Block{Reason: why, From: now, Until: until})
	return until
}

// sendNotes sends the events of those notes whose action took effect.
func (r *run) sendNotes() {
	for _, note := range r.job.Plan.Notes {
		if note.Action < 0 || note.Action >= len(r.result.Outcomes) || !r.result.Outcomes[note.Action].Done {
			continue
		}
		kind, reason, message := r.job.Texts.Note(note, r.job.Key.Namespace, r.job.Snapshot.Nodes[note.Node].Name)
		if reason != "" {
			r.e.Events.Event(r.job.Object, kind, reason, message)
		}
	}
}
