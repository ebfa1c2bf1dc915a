// SPDX-License-Identifier: Apache-2.0

// Package imagepull runs ImagePullJobs: it decides with internal/imagepull, writes into NodeImages what to pull, and writes the status of the job
// after that has succeeded. Nothing is kept between passes but answers and caches.
package imagepull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/controller/loop"
	"everynode.dev/everynode/internal/controller/pullstore"
	"everynode.dev/everynode/internal/imagepull"
)

// Options are the parts of a Controller.
type Options struct {
	Store   *pullstore.Store
	Watches *pullstore.Watches
	Pods    *pullstore.Pods
	Events  record.EventRecorder
	Clock   clock.WithTicker
	// MayWrite is asked at the beginning of each pass.
	MayWrite func() bool
	// Secrets makes pull secrets available to nodes.
	Secrets *Secrets
	// Order returns the nodes that are to be served first, in order, and those that are not served yet; none for jobs for which there are none.
	Order func(*v1beta1.ImagePullJob) (first []string, held map[string]bool)
}

// workers is how many jobs are looked at at once, and writers how many NodeImages are changed at once for one of them; statusInterval is the shortest time between two status writes of a job that
// runs; retryInterval is the pause before a pass is repeated because its object has changed.
const (
	workers        = 4
	writers        = 8
	statusInterval = 500 * time.Millisecond
	retryInterval  = 100 * time.Millisecond
)

// Controller is the loop over jobs. Make one with New.
type Controller struct {
	Options
	loop *loop.Loop[types.NamespacedName]

	mu sync.Mutex
	// wrote is when the status of a job was last written, and setbacks contains, by node, the failed last changes of NodeImages for the job.
	wrote    map[types.UID]time.Time
	setbacks map[types.UID]map[string]setback
}

// setback is the reason why a NodeImage was not changed, or why that is not known: unclear is how many answers in a row were not clear.
type setback struct {
	why     string
	refused bool
	unclear int
}

// last reports whether the node comes after all others. After one answer that was not clear it is tried again before another node is begun in its place.
func (s setback) last() bool { return s.refused || s.unclear > 1 }

// New returns a Controller.
func New(o Options) *Controller {
	c := &Controller{Options: o, wrote: map[types.UID]time.Time{}, setbacks: map[types.UID]map[string]setback{}}
	c.loop = loop.New("imagepulljob", o.Clock, c.Reconcile)
	c.loop.Group = func(key types.NamespacedName) string { return key.Namespace } // a webhook may be for the jobs of one namespace
	return c
}

// Watch registers the event handlers of the controller.
func (c *Controller) Watch() {
	c.Watches.Handle(pullstore.Jobs, func(_ context.Context, obj, old client.Object) {
		if obj == nil {
			c.forget(old.GetUID())
			obj = old // a last pass ends what was begun for it
		}
		c.loop.Enqueue(client.ObjectKeyFromObject(obj))
	})
	c.Watches.Handle(pullstore.NodeImages, c.imageChanged)
	c.Watches.Handle(pullstore.Nodes, c.nodeChanged)
	c.Pods.Changed = c.loop.Enqueue
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.Secrets.run(ctx, c.neededBy) })
	c.loop.Run(ctx, workers)
	wg.Wait()
	c.Pods.Wait()
}

// imageChanged asks for a pass for the jobs that own something in the NodeImage, or did; a new one concerns all.
func (c *Controller) imageChanged(_ context.Context, obj, old client.Object) {
	now, added := obj.(*v1beta1.NodeImage)
	before, was := old.(*v1beta1.NodeImage)
	if !added || !was {
		c.loop.Enqueue(everyRunning())
		return
	}
	jobs := imagepull.Owners(now)
	maps.Copy(jobs, imagepull.Owners(before))
	for key := range jobs {
		c.loop.Enqueue(key)
	}
}

// nodeChanged asks for a pass for all jobs that run, unless nothing has changed that matters to them. The
// watch of nodes waits for it, so a worker determines which jobs these are, once for many nodes.
func (c *Controller) nodeChanged(_ context.Context, obj, old client.Object) {
	now, ok := obj.(*corev1.Node)
	before, was := old.(*corev1.Node)
	if ok && was {
		isReady, _ := pullstore.Readiness(now)
		wasReady, _ := pullstore.Readiness(before)
		if isReady == wasReady && maps.Equal(now.Labels, before.Labels) && pullstore.CanPull(now) == pullstore.CanPull(before) {
			return
		}
	}
	c.loop.Enqueue(everyRunning())
}

// Enqueue asks for a pass for a job.
func (c *Controller) Enqueue(job types.NamespacedName) { c.loop.Enqueue(job) }

// EnqueueAll asks for a pass for every job.
func (c *Controller) EnqueueAll() { c.loop.Enqueue(everyJob()) }

// everyJob is the key for all jobs, and everyRunning the key for all jobs that have not ended; no job has these names.
func everyJob() types.NamespacedName     { return types.NamespacedName{} }
func everyRunning() types.NamespacedName { return types.NamespacedName{Name: "/running"} }

// enqueueAll asks for a pass for every job, or for every one that has not ended.
func (c *Controller) enqueueAll(ctx context.Context, ended bool) error {
	jobs, err := c.Store.Jobs(ctx, "")
	for i := range jobs {
		if ended || jobs[i].Status.CompletionTime == nil {
			c.loop.Enqueue(client.ObjectKeyFromObject(&jobs[i]))
		}
	}
	return err
}

func (c *Controller) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.wrote, uid)
	delete(c.setbacks, uid)
}

// Reconcile is one pass for one job.
func (c *Controller) Reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	if !c.MayWrite() {
		return 0, nil
	}
	if all := key == everyJob(); all || key == everyRunning() {
		return 0, c.enqueueAll(ctx, all)
	}
	job, err := c.Store.Job(ctx, key)
	if err != nil {
		return 0, err
	}
	if job == nil || job.DeletionTimestamp != nil || job.Status.CompletionTime != nil || job.Spec.PodSelector == nil {
		c.Pods.End(key)
	}
	switch {
	case job == nil:
		return 0, nil
	case job.DeletionTimestamp != nil:
		return 0, c.removeFinalizer(ctx, job)
	}
	if err := c.Store.ResolveUnconfirmed(ctx); err != nil {
		return 0, err
	}
	s, err := c.snapshot(ctx, job)
	if err != nil || s == nil {
		return 0, err
	}
	plan := imagepull.Decide(*s)
	if plan.Delete {
		return 0, c.Store.Delete(ctx, job)
	}
	made := c.edit(ctx, job, plan.Edits)
	if made.unclear != nil || made.outdated && plan.Status.CompletionTime != nil {
		return retryInterval, errors.Join(made.unclear, made.refused)
	}
	plan.Status.Active -= made.notBegun
	wait, err := c.report(ctx, job, &plan)
	if err = errors.Join(err, made.refused); err != nil || made.outdated {
		return retryInterval, err
	}
	if plan.More {
		return time.Millisecond, nil
	}
	if s.Hold != "" {
		wait = earliest(wait, refreshInterval) // there is no event when permissions change
	}
	return earliest(wait, until(s.Now, plan.Wake)), nil
}

// removeFinalizer removes the finalizer that another controller has left on a job, which would keep the job.
func (c *Controller) removeFinalizer(ctx context.Context, job *v1beta1.ImagePullJob) error {
	left := slices.DeleteFunc(slices.Clone(job.Finalizers), func(f string) bool { return f == kruise.JobFinalizer })
	if len(left) == len(job.Finalizers) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": job.ResourceVersion, "finalizers": left}})
	if err != nil {
		return fmt.Errorf("encoding the finalizers of %s: %w", job.Name, err)
	}
	err = c.Store.Live().Patch(ctx, job, client.RawPatch(types.MergePatchType, patch))
	if err != nil && !pullstore.IsOutdated(err) {
		return fmt.Errorf("removing a finalizer of the job %s/%s: %w", job.Namespace, job.Name, err)
	}
	return nil
}

// snapshot returns the input of the decision about the job; nil while it is being read. Another pass follows the read.
func (c *Controller) snapshot(ctx context.Context, job *v1beta1.ImagePullJob) (*imagepull.Snapshot, error) {
	s := &imagepull.Snapshot{Now: c.Clock.Now(), Job: job, Refused: c.refusals(job.UID)}
	if job.Status.CompletionTime == nil {
		var err error
		if s.Secrets, s.Hold, err = c.Secrets.sync(ctx, job); err != nil {
			return nil, err
		}
		if c.Order != nil {
			s.Order, s.Held = c.Order(job)
		}
	}
	if selector := job.Spec.PodSelector; selector != nil && job.Status.CompletionTime == nil {
		known := false
		if s.PodNodes, known = c.Pods.Nodes(ctx, client.ObjectKeyFromObject(job), &selector.LabelSelector); !known {
			return nil, nil
		}
	}
	nodes, err := c.Store.Nodes(ctx)
	s.Nodes = nodes
	return s, err
}

// editResult is the result of edits.
type editResult struct {
	// outdated reports whether a NodeImage has changed since it was read, after which the pass is repeated. refused
	// are the changes that the API server has refused, or has several times not answered clearly. notBegun is
	// the number of nodes on which no pull has begun because of this.
	outdated bool
	refused  error
	notBegun int32
	// unclear is what may have taken effect or not.
	unclear error
}

// edit sends all edits, several concurrently, because webhooks delay each of them. A failed edit does not stop the others, which concern other nodes.
func (c *Controller) edit(ctx context.Context, job *v1beta1.ImagePullJob, edits []imagepull.Edit) editResult {
	results := make([]error, len(edits))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(writers, len(edits)) {
		wg.Go(func() {
			for i := range next {
				results[i] = c.Store.Edit(ctx, &edits[i])
			}
		})
	}
	for i := range edits {
		next <- i
	}
	close(next)
	wg.Wait()
	var e editResult
	for i, result := range results {
		last := c.noteRefusal(job.UID, edits[i].Node, result)
		switch answer := apply.OfDelete(result); {
		case result == nil:
		case answer == apply.Gone, answer == apply.Differs:
			e.outdated = true
		case last:
			e.refused = errors.Join(e.refused, result)
		default:
			e.unclear = errors.Join(e.unclear, result)
		}
		if edits[i].Begins && result != nil {
			e.notBegun++
		}
	}
	return e
}

// noteRefusal records the nodes for which a change was refused, or had no clear answer: a job handles these
// nodes after all others, so that one node does not delay the rest.
func (c *Controller) noteRefusal(job types.UID, node string, err error) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := apply.OfDelete(err)
	if answer != apply.Refused && answer != apply.Unclear {
		delete(c.setbacks[job], node)
		return false
	}
	if c.setbacks[job] == nil {
		c.setbacks[job] = map[string]setback{}
	}
	s := setback{why: err.Error(), refused: answer == apply.Refused}
	if !s.refused {
		s.unclear = c.setbacks[job][node].unclear + 1
	}
	c.setbacks[job][node] = s
	return s.last()
}

// refusals are the nodes that come last for a job, and why.
func (c *Controller) refusals(job types.UID) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	whys := map[string]string{}
	for node, s := range c.setbacks[job] {
		if s.last() {
			whys[node] = s.why
		}
	}
	return whys
}

// Refused reports whether the API server has refused the last change of the NodeImage of a node for the job with that UID.
func (c *Controller) Refused(job types.UID, node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.setbacks[job][node].refused
}

// report writes the status if it has changed, and then sends the events. While a job runs it does so at most once in
// statusInterval; the returned duration is the delay until the postponed write.
func (c *Controller) report(ctx context.Context, job *v1beta1.ImagePullJob, plan *imagepull.Plan) (time.Duration, error) {
	if equality.Semantic.DeepEqual(job.Status, plan.Status) {
		return 0, nil
	}
	now := c.Clock.Now()
	c.mu.Lock()
	wait := statusInterval - now.Sub(c.wrote[job.UID])
	c.mu.Unlock()
	if wait > 0 && plan.Status.CompletionTime == nil {
		return wait, nil
	}
	if err := c.Store.SetJobStatus(ctx, job, plan.Status); err != nil {
		if pullstore.IsOutdated(err) {
			return retryInterval, nil
		}
		return 0, err
	}
	c.mu.Lock()
	c.wrote[job.UID] = now
	c.mu.Unlock()
	for _, e := range plan.Events {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		c.Events.Event(subject(job), kind, e.Reason, e.Message)
	}
	return 0, nil
}

// subject is what an event about a job is about; objects from a cache have no kind.
func subject(job *v1beta1.ImagePullJob) *corev1.ObjectReference {
	r := imagepull.Owner(job)
	return &r
}

// neededBy reports whether the job of that name still needs its pull secrets.
func (c *Controller) neededBy(ctx context.Context, key types.NamespacedName) (bool, error) {
	job, err := c.Store.Job(ctx, key)
	return job != nil && job.DeletionTimestamp == nil && job.Status.CompletionTime == nil, err
}

// until returns the time from now to t, at least a second, because times in the API have no fractions; 0 when t is never.
func until(now, t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(t.Sub(now), time.Second)
}

// earliest is the smaller of two durations, of which 0 is never.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
