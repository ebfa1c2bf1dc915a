// SPDX-License-Identifier: Apache-2.0

// Package daemonset runs the one loop that serves the daemon sets of all dialects:
//
//	clustercache ──► Snapshot ──► rollout.Decide ──► Plan ──► executor ──► API server, and back into the cache
//
// One pass for one set settles and claims its pods, brings its history in order, decides once on one Snapshot, carries the
// plan out, and writes the status once, also when a write of the pass failed. Passes of one set never overlap. Nothing is
// kept between passes but the core's Memory and durations, which may be lost, and caches.
package daemonset

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/policyinput"
	"everynode.dev/everynode/internal/rollout"
)

// Options are the parts of a Controller; all are required but the last eight.
type Options struct {
	Dialects  []dialect.Dialect
	Index     *clustercache.Index
	Executor  *executor.Executor
	Revisions executor.Revisions
	Sets      Sets
	Events    record.EventRecorder
	Clock     clock.WithTicker
	Observer  Observer
	// Workers is the number of sets that are worked on at once.
	Workers int
	// PullJobs may be nil: then nothing is pulled ahead. Without Policies there are no rollout policies, without Analyses those of policies have no answer, and
	// without Notices no program is notified. Without Templates no undo changes a template.
	PullJobs PullJobs
	// ImagesInPlace is how changes in place wait for images that their set has not asked to wait; nil if they do not.
	ImagesInPlace *ImagesInPlace
	Templates     Templates
	Policies      Policies
	Analyses      Analyses
	Notices       Notices
	// Late is whether the sets of an optional dialect have not been read yet, while the others are served; it may be nil.
	Late func() bool
	// UpstreamWorks reports whether kube-controller-manager, and not this manager, manages the pods of apps/v1; nil if it never does.
	UpstreamWorks func() bool
	// Wake asks for a pass for a set after a time, for another reason than a change of it or its pods; nil for the work queue.
	Wake func(key clustercache.Key, after time.Duration)
}

// Observer receives the results of a pass, after its writes.
type Observer interface {
	// Decided receives a decision and how long it took. It must not keep the Snapshot.
	Decided(key clustercache.Key, s *rollout.Snapshot, p *rollout.Plan, took time.Duration)
	// Forgotten is called for a set for which nothing is decided any more: it is gone, being deleted, or of no concern.
	Forgotten(key clustercache.Key)
	// Refused is called for a set for which nothing is decided as long as its specification is not valid.
	Refused(key clustercache.Key)
	// Wrote is called for a write other than those of pods.
	Wrote(verb string, err error)
}

// Controller is the loop. Make one with New.
type Controller struct {
	Options
	dialects map[string]*dialect.Dialect
	queue    workqueue.TypedRateLimitingInterface[clustercache.Key]
	pending  pendingSets
	orders   orders
	failures failures
	slow     slowWrites
	meetings meetings
	groups   groups
	// ending is set when the manager is being stopped for good.
	ending atomic.Pointer[ending]

	// buffers are reused for Snapshots (*clustercache.Buffer): each pass in progress has one.
	buffers sync.Pool

	mu     sync.Mutex
	states map[clustercache.Key]*state
}

// New returns a Controller whose queue is fed by Enqueue.
func New(o Options) *Controller {
	c := &Controller{
		Options:  o,
		dialects: map[string]*dialect.Dialect{},
		states:   map[clustercache.Key]*state{},
		buffers:  sync.Pool{New: func() any { return &clustercache.Buffer{} }},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[clustercache.Key](50*time.Millisecond, 30*time.Second),
			workqueue.TypedRateLimitingQueueConfig[clustercache.Key]{Name: "daemonset", Clock: o.Clock}),
	}
	for i := range o.Dialects {
		c.dialects[o.Dialects[i].Source.Dialect] = &c.Options.Dialects[i]
	}
	return c
}

// Enqueue asks for a pass for the set. It is the notify function of the cache, so most calls only find that a pass is coming already.
func (c *Controller) Enqueue(key clustercache.Key) {
	if in, isNew := c.pending.add(key); isNew {
		c.queue.AddAfter(key, in)
	}
}

// EnqueueAll asks for a pass for every set of the dialect.
func (c *Controller) EnqueueAll(dialectName string) {
	for _, key := range c.Index.Keys(dialectName) {
		c.queue.Add(key)
	}
}

// Run works until ctx ends, and returns when all passes have ended.
func (c *Controller) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range c.Workers {
		workers.Go(func() {
			for c.work(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	workers.Wait()
	c.slow.running.Wait()
}

func (c *Controller) work(ctx context.Context) bool {
	key, stop := c.queue.Get()
	if stop {
		return false
	}
	defer c.queue.Done(key)
	c.pending.remove(key) // before anything is read: what comes from now on may need another pass
	if ctx.Err() != nil {
		return true
	}
	after, err := c.Reconcile(ctx, key)
	if c.failures.isNew(key, err) {
		klog.FromContext(ctx).Error(err, "Pass failed and will be repeated", "set", key.String())
	}
	if err != nil && !executor.OnlyRefusals(err) { // what was refused belongs to nodes, and is tried again for each by itself
		c.queue.AddRateLimited(key)
	} else {
		c.queue.Forget(key)
	}
	if after > 0 {
		c.queue.AddAfter(key, after)
	}
	return true
}

// Reconcile is one pass for one set. It returns when to come back even if nothing happens (0: never), and maybe an error, after
// which the pass is also to be repeated with a growing delay.
func (c *Controller) Reconcile(ctx context.Context, key clustercache.Key) (time.Duration, error) {
	e := c.ending.Load()
	after, err := c.reconcile(ctx, key, e)
	if e != nil {
		e.passed(key, err != nil && !executor.OnlyRefusals(err))
	}
	return after, err
}

func (c *Controller) reconcile(ctx context.Context, key clustercache.Key, e *ending) (time.Duration, error) {
	d, w := c.dialects[key.Dialect], c.Index.Workload(key)
	switch {
	case w == nil:
		c.forget(key)
		return 0, nil
	case d == nil || !d.MayWrite():
		c.ask(key, nil)
		c.unlooked(key)
		c.reportBlocked(key, w)
		return 0, nil
	case w.Deleting:
		c.ask(key, nil)
		c.forgetGoverned(w)
		// The garbage collector takes care of it: its pods go with it or are orphaned (as upstream).
		c.Observer.Forgotten(key) // its update never ends
		return 0, nil
	}
	p := &pass{c: c, d: d, key: key, w: w, state: c.state(key, w), ending: e}
	p.governedAt, p.state.governed.at = p.state.governed.at, time.Time{} // so that only passes count that follow each other and decide
	if p.adopt(); !p.byPolicy && c.bystander(key, w) {
		c.quitGroup(key, policyinput.SetOf(w))
		p.reportIdle()
		return p.standBy(ctx)
	}
	defer p.missTurn()
	if p.refuse() {
		c.Observer.Refused(key)
		p.reportIdle()
		return p.writeStatus(ctx, dialect.Report{Numbers: w.Status, ObservedGeneration: w.ObservedGeneration})
	}
	defer p.reportNothing()
	return p.run(ctx)
}

// state is what is kept of a set between passes.
type state struct {
	workload *dialect.Workload // the one that the caches below were made for
	memory   rollout.Memory
	history  historyCache
	observed observed
	makers   makerCache
	// reported holds the problems of generation reportedOf for which an event was sent, so that none is sent twice for one cause.
	reported   map[string]bool
	reportedOf int64
	pace       statusPace
	// batch is how many creates of a pass are sent first: as many as went well before, of generation batchOf.
	batch     int
	batchOf   int64
	governed  governed
	durations durations
	pulls     pullState
	// refused is the last change of the template, if it was refused.
	refused atomic.Pointer[refusal]
	// tidyAfter is when revisions that no decision needs may be adopted or labelled again.
	tidyAfter time.Time
	// young reports whether the set was new when it was first seen, and nothing has been decided for it yet.
	young bool
}

// youngAge is the age below which a set is new. What its pods belonged to before may have been deleted just now. A set whose status no
// controller has written yet, which is 0 or the default of the CRD, is new whatever the clock of this machine says.
const youngAge = 10 * time.Minute

func (c *Controller) state(key clustercache.Key, w *dialect.Workload) *state {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[key]
	if s != nil && s.workload.UID != w.UID {
		c.orders.drop(s.workload.UID)
		s = nil
	}
	if s == nil {
		s = &state{reported: map[string]bool{}, young: w.ObservedGeneration <= 0 || timeOf(c.Clock.Now()).Sub(w.Created) < youngAge}
		c.states[key] = s
	}
	s.workload = w
	return s
}

func (c *Controller) forget(key clustercache.Key) {
	c.ask(key, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.states[key]; s != nil {
		c.orders.drop(s.workload.UID)
		c.forgetGoverned(s.workload)
	} else if d := c.dialects[key.Dialect]; d != nil { // no pass was made for it, and others may wait for that
		c.leaveGroup(policy.Set{Advanced: d.GVK.Group != appsv1.GroupName, Namespace: key.Namespace, Name: key.Name}, false)
	}
	delete(c.states, key)
	c.failures.setBlocked(key, false)
	c.Executor.Slow.Forget(key)
	c.slow.forget(key)
	c.pending.decided(key, 0)
	c.Observer.Forgotten(key)
}

// pass is one pass being made.
type pass struct {
	c     *Controller
	d     *dialect.Dialect
	key   clustercache.Key
	w     *dialect.Workload
	state *state
	// result is the result of carrying out the plan.
	result executor.Result
	// carriedOut is when the writes of the plan had been answered, except those that no pass waits for, and carriedOutIn how long that was after the decision.
	carriedOut   time.Time
	carriedOutIn time.Duration
	// rules are the policies that apply, and marked is whether a policy has governed the set.
	rules  Governance
	marked bool
	// foreigners contains for each revision whether a policy forbids creating pods from it; nil for none.
	foreigners []bool
	// tidied reports whether orphans of the history have been adopted in this pass.
	tidied bool
	// governedAt is when the pass before this one made a decision about a policy; 0 if it made none.
	governedAt time.Time
	// byPolicy reports whether a policy updates the set although another controller manages its pods.
	byPolicy bool
	// turn is the turn of the set in its concurrency group.
	turn turn
	// reported reports whether the pass has reported its results to the policies.
	reported bool
	// stoodBack reports whether the decision was made without the annotations of OpenYurt.
	stoodBack bool
	// ending is set if the pass only ends what is under way.
	ending *ending
}

// claim resolves earlier writes without a definite answer, and adopts or releases pods and revisions; for an external set, another controller does this.
func (p *pass) claim(ctx context.Context) (claimed bool, h *clustercache.Resolved, claimErr, historyErr error) {
	events, object := p.c.Events, p.object()
	claim := executor.Claim{
		Key: p.key, Owner: p.owner(), MayAdopt: p.mayAdopt, Others: p.others,
		Failed: func(err error) { events.Event(object, corev1.EventTypeWarning, base.ReasonFailedAdopt, err.Error()) },
	}
	if p.w.Set.ExternalController {
		claim.MayAdopt = nil
		claimed, claimErr = p.c.Executor.Claims(ctx, &claim)
		h, historyErr = p.observeHistory(ctx)
		return claimed, h, claimErr, apply.Brief(historyErr)
	}
	claimed, claimErr = p.c.Executor.Claims(ctx, &claim)
	h, historyErr = p.resolveHistory(ctx)
	return claimed, h, claimErr, apply.Brief(historyErr)
}

func (p *pass) run(ctx context.Context) (time.Duration, error) {
	if p.state.young && !p.w.Set.ExternalController {
		if again, err := p.meet(ctx); again > 0 || err != nil {
			return again, err
		}
	}
	claimed, h, claimErr, historyErr := p.claim(ctx)
	err := errors.Join(claimErr, historyErr)
	if h == nil {
		return 0, err
	}
	if p.governance(h); p.abandoned() {
		return 0, err
	}
	elapsed, now := p.sinceGoverned(), p.c.Clock.Now()
	p.carriedOut = now
	buffer := p.c.buffers.Get().(*clustercache.Buffer)
	defer p.c.buffers.Put(buffer) // nothing of the Snapshot is kept, and all writes have been answered
	snapshot, unblock, ok := p.c.Index.SnapshotInto(buffer, p.key, p.inPlace(h), timeOf(now))
	if !ok {
		return 0, err // the set has changed since, which has requested another pass
	}
	snapshot.Memory = p.state.memory
	p.setByPolicy(&snapshot)
	images := p.lookAhead(ctx, h, &snapshot)
	p.standBack(&snapshot)
	p.beginTurn()
	allowed := p.govern(h, &snapshot, now, elapsed)
	plan := p.decide(&snapshot, h)
	p.endTurn(&allowed, &plan, historyErr == nil && claimed)
	after := plan
	took := p.c.Clock.Since(now)
	p.c.pending.decided(p.key, took)
	report := dialect.Report{Numbers: plan.Status, ObservedGeneration: p.w.ObservedGeneration, Snapshot: &snapshot, Plan: &after, Governed: p.governed(&allowed)}
	if historyErr == nil && claimed {
		// Before, it is not clear which pods are the set's own, or what the wanted revision is called; so nothing is done but to say how things are.
		report.ObservedGeneration = p.w.Generation
		p.state.memory = plan.Memory
		if h.Current >= 0 { // else another controller has yet to say which revision that is
			report.UpdateRevision = h.Entries[h.Current].Hash
			p.predownload(ctx, h, &images, &plan)
		}
		var applyErr error
		after, applyErr = p.apply(ctx, h, &snapshot, &plan)
		p.carriedOut, p.carriedOutIn = p.c.Clock.Now(), p.c.Clock.Since(now)
		p.measure(&snapshot, &plan, now)
		err = errors.Join(err, applyErr, p.writeMarks(ctx, h, &allowed), p.revert(ctx, h, &allowed))
	} else {
		report.Failure = errors.Join(onlyRefused(historyErr), onlyRefused(claimErr))
		p.reportUnwritten(&allowed, &snapshot.Set, historyErr)
	}
	p.recordFailure(claimErr, base.ReasonFailedAdopt)
	p.recordFailure(historyErr, base.ReasonFailedRevision)
	report.Problems = images.problems
	again, statusErr := p.writeStatus(ctx, report)
	p.saveDurations(ctx, h, &plan)
	p.c.failures.setBlocked(p.key, slices.ContainsFunc(after.Verdicts, func(v rollout.Verdict) bool { return v.Kind.Cause() == rollout.CauseRefusal }))
	p.c.Observer.Decided(p.key, &snapshot, &after, took)
	p.reportGoverned(&allowed, &plan)
	if (!claimed || p.result.Left) && err == nil || p.result.Left && executor.OnlyRefusals(err) { // a node that is refused delays no other
		again = time.Millisecond
	}
	if p.result.Skipped || p.result.LaneFull {
		again = soonest(again, skippedPause)
	}
	return soonest(again, images.again, p.state.durations.wake, until(now, p.wake(&plan, now, err)), until(now, unblock), until(now, allowed.Wake), until(now, p.stalls(&snapshot))), errors.Join(err, statusErr)
}

// wake is when to come back for what the plan has left, after its writes have been answered; 0 for never. err is why the pass is repeated.
func (p *pass) wake(plan *rollout.Plan, began time.Time, err error) rollout.Time {
	wake := plan.Wake
	if p.result.Ended {
		wake = max(wake, timeOf(p.c.Clock.Now().Add(endedPause)))
	}
	if at := p.result.Unblock; at > 0 && (wake == 0 || at < wake) {
		wake = at // the Snapshot of this pass does not know of it yet, and nothing else may happen until then
	}
	if (p.result.Skipped || err != nil && !executor.OnlyRefusals(err)) && wake <= timeOf(began) {
		return 0 // what had no room in this plan waits for the repetition, which is not so soon
	}
	return wake
}

// skippedPause is how soon writes follow that were left out because all creates before them were refused, or because there was no room for them among
// the slow ones.
const skippedPause = time.Second

// recordFailure sends an event about what was refused of bringing pods and history in order.
func (p *pass) recordFailure(err error, reason string) {
	if err = onlyRefused(err); err != nil {
		p.recordEvent(reason, err.Error())
	}
}

// onlyRefused is an error if it is a refusal. What is not clear, a later pass finds out.
func onlyRefused(err error) error {
	if apply.OfCreate(err) != apply.Refused {
		return nil
	}
	return err
}

// endedPause is how long a set waits whose namespace is being deleted.
const endedPause = 10 * time.Second

// How many creates are sent first, at most: what keeps every API server at work, and what leaves room for other sets that wait.
const firstAlone, firstOfMany = 32, executor.BatchOfMany

// firstBatch is how many creates are sent first: it is not known yet whether pods of a new template are refused.
func (p *pass) firstBatch() int {
	s := p.state
	if s.batchOf != p.w.Generation {
		s.batch, s.batchOf = 1, p.w.Generation
	}
	if p.others() {
		return min(s.batch, firstOfMany)
	}
	return min(s.batch, firstAlone)
}

// others reports whether other sets wait for their pass.
func (p *pass) others() bool { return p.c.queue.Len() > 0 }

// apply carries the plan out, and returns it as it is after that.
func (p *pass) apply(ctx context.Context, h *clustercache.Resolved, s *rollout.Snapshot, plan *rollout.Plan) (after rollout.Plan, err error) {
	job := executor.Job{
		Key: p.key, Workload: p.w, Object: p.object(), Owner: p.owner(), Snapshot: *s, Template: h.Current, Plan: *plan,
		Maker: func(revision int) makerOf { return p.maker(h, revision) }, Texts: p.d.Texts, Edits: p.d.Edits,
		Change: func(from, to int) dialect.Change {
			return dialect.Change{From: h.Entries[from].Template, To: h.Entries[to].Template, Hash: h.Entries[to].Hash, CloseGate: p.w.Set.ClosesGate()}
		},
		Announce: p.d.Announce,
		MayWrite: p.mayWrite,
		Others:   p.others,
		Batch:    p.firstBatch(),
	}
	p.result, err = p.c.Executor.Run(ctx, &job)
	p.state.batch = p.result.Batch
	after = plan.After(s, p.result.Outcomes)
	if err == nil {
		p.recordWaits(s, &after)
	}
	if p.w.Set.ExternalController {
		return after, err
	}
	return after, errors.Join(err, p.truncateHistory(ctx, h))
}
