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

// Intervals of the loop.
const (
	// lookupInterval is how often the agent queries the runtime for images that another client may have pulled.
	lookupInterval = 30 * time.Second
	// downInterval is the pause between two requests to a runtime that does not respond.
	downInterval = 2 * time.Second
	// The rate limit of status writes: a burst, then one every two seconds.
	writesPerSecond, writesAtOnce = 0.5, 5
	// writeRetryInterval is the pause after a write that failed, or that exceeds the rate limit.
	writeRetryInterval = 2 * time.Second
)

// store is where the NodeImage is.
type store interface {
	// Object returns the newest known NodeImage, or nil.
	Object() *v1beta1.NodeImage
	// PatchStatus changes the status and returns the changed object.
	PatchStatus(ctx context.Context, patch []byte) (*v1beta1.NodeImage, error)
}

// runtime is the container runtime.
type runtime interface {
	Image(ctx context.Context, ref imageref.Full) (string, error)
	Pull(ctx context.Context, p cri.Pull) (string, error)
	Fill(ctx context.Context) (int, error)
}

// loop is the main loop of the agent. All fields belong to the goroutine of run.
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
	// shown is the last version from the watch.
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
	// writeAt is when the next pending write may be tried.
	writeAt time.Time
	// heartbeat is the Unix time of the last step; the health check reads it.
	heartbeat atomic.Int64
	// background are the pulls and writes in progress.
	background sync.WaitGroup
}

// wantSource is a source of wants other than the NodeImage.
type wantSource interface {
	// wants returns wants whose keys have a pod.
	wants() ([]pull.Want, map[pull.Key]pullSpec)
	// observe is called after each decision, with all states.
	observe(states []pull.State)
}

// lookup is a cached result of the runtime for an image.
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

// newLoop returns an empty loop; the caller sets its dependencies.
func newLoop() *loop {
	return &loop{
		specs: map[pull.Key]pullSpec{}, cancels: map[int64]context.CancelFunc{}, lookups: map[string]lookup{},
		results: make(chan pullResult), writes: make(chan statusWrite), done: make(chan struct{}),
		pace: flowcontrol.NewTokenBucketPassiveRateLimiter(writesPerSecond, writesAtOnce),
	}
}

// run runs until ctx ends. Then it cancels the pulls in progress; the next agent starts them again.
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

// step reads the inputs, decides and acts, and returns the time of the next step if nothing happens before.
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

// read reads the wants.
func (l *loop) read() {
	l.readObject()
	if l.prepull == nil {
		return
	}
	wants, specs := l.prepull.wants()
	l.wants = append(l.wants, wants...)
	maps.Copy(l.specs, specs)
}

// readObject reads the NodeImage. If its UID has changed, only the status of the new object is remembered.
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
		l.object = nil // the storage of the API server was restored from a backup: later writes are lost
	}
	l.shown = object
	l.object = newer(l.object, object)
	l.wants, l.specs = wantsOf(l.object.Spec)
	l.adoptOutcomes(&l.object.Status)
}

// adoptOutcomes accepts wants that another writer has completed: the manager fails a want if the agent has not reported
// on it for too long. Overwriting that would start a conflict.
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

// remember stores the memory, and which wants became final.
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

// handleResult handles the result of a pull.
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
