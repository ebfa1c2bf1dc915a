// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/cri"
	"everynode.dev/everynode/internal/agent/pull"
	"everynode.dev/everynode/internal/imageref"
)

// Times of the loop.
const (
	// lookupInterval is how often the agent asks the runtime for images that another client may have pulled.
	lookupInterval = 30 * time.Second
	// downInterval is the pause between two requests to a runtime that does not answer.
	downInterval = 2 * time.Second
	// The pace of writes of the status: a few at once, then one every two seconds.
	writesPerSecond, writesAtOnce = 0.5, 5
	// writeRetryInterval is the pause after a write that failed, or that exceeds the rate limit.
	writeRetryInterval = 2 * time.Second
)

// store is where the NodeImage is.
type store interface {
	// Object is the newest NodeImage that is known, nil when there is none.
	Object() *v1beta1.NodeImage
	// PatchStatus changes the status and returns the object as it is then.
	PatchStatus(ctx context.Context, patch []byte) (*v1beta1.NodeImage, error)
}

// runtime is the container runtime.
type runtime interface {
	Image(ctx context.Context, ref imageref.Full) (string, error)
	Pull(ctx context.Context, p cri.Pull) (string, error)
	Fill(ctx context.Context) (int, error)
}

// loop is the agent at work. All fields belong to the goroutine of run.
type loop struct {
	store    store
	changed  <-chan struct{}
	runtime  runtime
	keychain keychain
	limits   pull.Limits
	report   reporter
	pace     flowcontrol.PassiveRateLimiter
	prepull  wantSource

	object *v1beta1.NodeImage
	// shown is what the watch has shown last.
	shown   *v1beta1.NodeImage
	uid     types.UID
	wants   []pull.Want
	specs   map[pull.Key]pullSpec
	memory  pull.Memory
	runs    []pull.Run
	cancels map[int64]context.CancelFunc
	lookups map[string]lookup
	final   []pull.State // became final since the status was written

	results chan pullResult
	writes  chan statusWrite
	done    chan struct{} // closed when the loop no longer receives from the other two
	writing bool
	// writeAt is when a write may be tried that is due.
	writeAt time.Time
	// heartbeat is the Unix time of the last step; the health check reads it.
	heartbeat atomic.Int64
	// background has the pulls and writes that are in progress.
	background sync.WaitGroup
}

// wantSource is another source of wants than the NodeImage.
type wantSource interface {
	// wants have keys with a pod.
	wants() ([]pull.Want, map[pull.Key]pullSpec)
	// observe is called after each decision, with all states.
	observe(states []pull.State)
}

// lookup is an answer of the runtime about an image.
type lookup struct {
	at time.Time
	id string
}

// pullResult is the result of a pull.
type pullResult struct {
	run  int64
	id   string
	text string
	err  error
}

// statusWrite is the result of a write of the status.
type statusWrite struct {
	object *v1beta1.NodeImage
	events []pull.State
	err    error
}

// newLoop returns a loop with nothing in it; what it needs is set by the caller.
func newLoop() *loop {
	return &loop{
		specs: map[pull.Key]pullSpec{}, cancels: map[int64]context.CancelFunc{}, lookups: map[string]lookup{},
		results: make(chan pullResult), writes: make(chan statusWrite), done: make(chan struct{}),
		pace: flowcontrol.NewTokenBucketPassiveRateLimiter(writesPerSecond, writesAtOnce),
	}
}

// run works until ctx ends. Then it gives up the pulls that go on; the next agent begins them again.
func (l *loop) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer l.background.Wait()
	defer close(l.done)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		case e := <-l.results:
			l.handleResult(e)
		case w := <-l.writes:
			l.handleWrite(w)
		case <-timer.C:
		}
		timer.Reset(max(0, time.Until(l.step(ctx))))
	}
}

// step takes in what there is, decides and acts, and returns when to take the next step if nothing happens.
func (l *loop) step(ctx context.Context) time.Time {
	l.read()
	now := time.Now()
	l.heartbeat.Store(now.Unix())
	s := pull.Snapshot{Now: now, Limits: l.limits, Wants: l.wants, Memory: l.memory, Facts: l.facts(ctx)}
	p := pull.Decide(s)
	l.remember(p)
	for _, a := range p.Actions {
		l.act(ctx, a, now)
	}
	l.report.observe(p.Memory.States, s.Facts)
	if l.prepull != nil {
		l.prepull.observe(p.Memory.States)
	}
	next := now.Add(lookupInterval)
	if s.Facts.Down != "" {
		next = now.Add(downInterval)
	}
	for _, at := range []time.Time{p.Wake, l.write(ctx, now)} {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

// read takes in what is wanted.
func (l *loop) read() {
	l.readObject()
	if l.prepull == nil {
		return
	}
	wants, specs := l.prepull.wants()
	l.wants = append(l.wants, wants...)
	maps.Copy(l.specs, specs)
}

// readObject takes in the NodeImage. With another UID it is another object: only its own status is remembered.
func (l *loop) readObject() {
	object := l.store.Object()
	if object == nil {
		l.object, l.uid, l.wants, l.specs = nil, "", nil, map[pull.Key]pullSpec{}
		return
	}
	if object.UID != l.uid {
		l.uid, l.final = object.UID, nil
		ofPods := slices.DeleteFunc(l.memory.States, func(s pull.State) bool { return s.Pod == "" })
		l.memory.States = append(statesOf(&object.Status), ofPods...)
	}
	if newer(l.shown, object) != object {
		l.object = nil // the storage of the API server was restored from a backup: what was written since is gone
	}
	l.shown = object
	l.object = newer(l.object, object)
	l.wants, l.specs = wantsOf(l.object.Spec)
	l.adoptOutcomes(&l.object.Status)
}

// adoptOutcomes takes over wants that another writer has completed: the manager fails a want that the agent has not reported on for too long. To
// overwrite that would start a conflict.
func (l *loop) adoptOutcomes(status *v1beta1.NodeImageStatus) {
	ended := map[pull.Key]pull.State{}
	for _, s := range statesOf(status) {
		if s.Final() {
			ended[s.Key] = s
		}
	}
	for i := range l.memory.States {
		if s, ok := ended[l.memory.States[i].Key]; ok && !l.memory.States[i].Final() {
			klog.InfoS("The status reports an image as completed that this agent has not completed", "image", s.Image, "tag", s.Tag, "message", s.Message)
			l.memory.States[i] = s
		}
	}
}

// remember keeps the memory, and which wants became final with it.
func (l *loop) remember(p pull.Plan) {
	open := map[pull.Key]bool{}
	for _, s := range l.memory.States {
		open[s.Key] = !s.Final()
	}
	for _, s := range p.Memory.States {
		if was, known := open[s.Key]; s.Final() && (was || !known) {
			if s.Pod == "" {
				l.final = append(l.final, s)
			}
			klog.InfoS("Image completed", "image", s.Image, "tag", s.Tag, "version", s.Version, "phase", s.Phase.String(), "message", s.Message)
		}
	}
	l.memory = p.Memory
	kept := l.runs[:0]
	for _, r := range l.runs {
		if r.Result == pull.Running {
			kept = append(kept, r)
		}
	}
	l.runs = kept
}

func (l *loop) act(ctx context.Context, a pull.Action, now time.Time) {
	switch a.Kind {
	case pull.Cancel:
		klog.InfoS("Cancelling pull", "image", a.Ref, "run", a.Run, "cause", a.Cause.String())
		for i := range l.runs {
			if l.runs[i].Number == a.Run {
				l.runs[i].Cancelled = a.Cause
			}
		}
		l.cancels[a.Run]()
	case pull.Start:
		klog.InfoS("Pulling image", "image", a.Ref, "run", a.Run)
		l.runs = append(l.runs, pull.Run{Number: a.Run, Key: a.Key, Ref: a.Ref, Began: now, Until: a.Until})
		ctx, cancel := context.WithCancel(ctx)
		l.cancels[a.Run] = cancel
		o := l.specs[a.Key]
		l.background.Go(func() { l.pull(ctx, a.Run, o) })
	}
}

// handleResult takes in the result of a pull.
func (l *loop) handleResult(e pullResult) {
	l.cancels[e.run]()
	delete(l.cancels, e.run)
	for i := range l.runs {
		r := &l.runs[i]
		if r.Number != e.run {
			continue
		}
		switch {
		case e.err == nil:
			r.Result, r.Text = pull.Done, e.id
		case cri.IsAway(e.err):
			r.Result, r.Text = pull.Lost, e.text
		default:
			r.Result, r.Text = pull.Failed, e.text
		}
		l.report.pulled(*r, time.Now())
	}
}
