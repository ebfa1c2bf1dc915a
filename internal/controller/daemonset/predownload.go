// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/predownload"
	"everynode.dev/everynode/internal/rollout"
)

// Texts of events about pulling ahead, as OpenKruise has them; there a failure is not a warning.
const (
	textJobCreated = "created ImagePullJob %s for image: %s"
	textJobFailed  = "failed to create ImagePullJob %s: %v"
)

// PredownloadGate is the feature gate of dialect.Dialect.Predownload.
const PredownloadGate = "PreDownloadImageForDaemonSetUpdate"

// Texts for sets that request image pulls in advance where this is not possible.
const (
	textGateOff        = "Annotation %s has no effect: start everynode-manager with --feature-gates %s=true, or remove the annotation; until then no update waits for images."
	textGateOffInPlace = "Annotation %s has no effect on updates that recreate pods: start everynode-manager with --feature-gates %s=true, or remove the annotation; " +
		"until then only changes in place wait for images, on nodes with an agent."
	textNoImagePulls = "No images are pulled ahead, and no update waits for them: %s."
)

// predownloadRetry is the delay after which a pass is repeated if its jobs could not be created. The update does not wait for them, unless the set requires that.
const predownloadRetry = 10 * time.Second

// endlessRetry is the delay after which a pass is repeated for a set with nodes that wait without a deadline: no watch event shows that their NodeImages are full.
const endlessRetry = time.Minute

// PullJobs are the reads and writes of ImagePullJobs and NodeImages that the loop needs.
type PullJobs interface {
	// Serving reports whether all jobs and NodeImages have been read. If not, why describes what is missing; it is empty if the read is expected to finish in a moment.
	Serving() (ready bool, why string)
	// Owned are the jobs in a namespace that the set with that UID controls.
	Owned(ctx context.Context, namespace string, set types.UID) ([]predownload.Job, error)
	// Look is a predownload.Look.
	Look(image string, job *predownload.Job) func(node string) predownload.Pulled
	// Create answers AlreadyExists only for a job that the same set controls.
	Create(ctx context.Context, job *v1beta1.ImagePullJob) error
	Delete(ctx context.Context, namespace, name string) error
}

// orders keeps the order in which nodes are served, for sets that pull images in advance, and which sets wait for images.
type orders struct {
	mu      sync.Mutex
	of      map[types.UID]order
	waiting map[types.UID]clustercache.Key
	// jobless has the sets that are known to have no jobs.
	jobless map[types.UID]clustercache.Key
}

// order is the order in which the nodes of a set are served, and the nodes that are not yet; see predownload.Input.Order.
type order struct {
	first []string
	held  map[string]bool
}

// set keeps the order of a set, and reports whether the nodes have changed that are not served yet.
func (o *orders) set(uid types.UID, is order) (changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed = !maps.Equal(o.of[uid].held, is.held)
	if len(is.first)+len(is.held) == 0 {
		delete(o.of, uid)
		return changed
	}
	if o.of == nil {
		o.of = map[types.UID]order{}
	}
	o.of[uid] = is
	return changed
}

func (o *orders) wait(uid types.UID, key clustercache.Key, on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	remember(&o.waiting, uid, key, on)
}

// setJobless records whether a set is known to have no jobs. Before a read of the jobs it is set, so that a job that appears during or after the read is not missed.
func (o *orders) setJobless(uid types.UID, key clustercache.Key, is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	remember(&o.jobless, uid, key, is)
}

func (o *orders) isJobless(uid types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, is := o.jobless[uid]
	return is
}

func remember(in *map[types.UID]clustercache.Key, uid types.UID, key clustercache.Key, on bool) {
	if !on {
		delete(*in, uid)
		return
	}
	if *in == nil {
		*in = map[types.UID]clustercache.Key{}
	}
	(*in)[uid] = key
}

// drop forgets a set that is gone.
func (o *orders) drop(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.of, uid)
	delete(o.waiting, uid)
	delete(o.jobless, uid)
}

// Order returns the order in which the nodes of the set with that UID are served, and the nodes that are not served yet; none if the set pulls no images in
// advance.
func (c *Controller) Order(set types.UID) (first []string, held map[string]bool) {
	c.orders.mu.Lock()
	defer c.orders.mu.Unlock()
	return c.orders.of[set].first, c.orders.of[set].held
}

// PullsChanged asks for a pass for the set with that UID if it waits for images, or has a job although it was known to have none: a create may take effect after its time is up, when the set
// no longer needs the job. It never blocks.
func (c *Controller) PullsChanged(set types.UID) {
	c.orders.mu.Lock()
	key, asks := c.orders.waiting[set]
	if was, jobless := c.orders.jobless[set]; jobless {
		key, asks = was, true
		delete(c.orders.jobless, set)
	}
	c.orders.mu.Unlock()
	if asks {
		c.wake(key)
	}
}

// lookahead is the state of image pulls in advance during a pass; in is nil if there is nothing to do.
type lookahead struct {
	in    *predownload.Input
	again time.Duration
	// s is the Snapshot, and update the revision that it wanted then.
	s      *rollout.Snapshot
	update int
	// problems are the reasons why a request of the set cannot be fulfilled.
	problems []dialect.Problem
}

// problem records why a request of the set cannot be fulfilled, and sends one event.
func (p *pass) problem(a *lookahead, reason, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	a.problems = append(a.problems, dialect.Problem{Reason: reason, Message: message})
	p.recordEvent(reason, message)
}

// lookAhead collects the state of image pulls before the decision, and makes nodes wait whose images are not present.
func (p *pass) lookAhead(ctx context.Context, h *clustercache.Resolved, s *rollout.Snapshot) lookahead {
	return p.look(ctx, h, s, true)
}

// look collects the state of image pulls for the revision that the Snapshot wants; wait is whether nodes wait whose images are not present.
func (p *pass) look(ctx context.Context, h *clustercache.Resolved, s *rollout.Snapshot, wait bool) lookahead {
	a, asked, inPlace := lookahead{s: s, update: s.Set.Update}, p.w.PullAhead.Wait, p.mayWaitInPlace(s)
	p.c.orders.wait(p.w.UID, p.key, asked || inPlace)
	if asked && (p.c.PullJobs == nil || !p.d.Predownload) {
		p.problem(&a, base.ReasonIgnoredField, gateOffText(inPlace), everynode.WaitForImage, PredownloadGate)
	}
	if p.c.PullJobs == nil || !p.d.Predownload && !inPlace && p.jobless() {
		return a
	}
	ready, why := p.c.PullJobs.Serving()
	if why != "" {
		if asked && p.d.Predownload {
			p.problem(&a, base.ReasonNoImagePulls, textNoImagePulls, why)
		}
		return a
	}
	in := &predownload.Input{Set: p.w, Snapshot: s}
	for i := range h.Entries {
		in.Revisions = append(in.Revisions, predownload.Revision{
			Name: h.Entries[i].Name, Hash: h.Entries[i].Hash, Template: h.Entries[i].Template, Mark: mark(&h.Revisions[i]),
		})
	}
	if inPlace {
		p.imagesInPlace(in)
	}
	in.Off = !p.d.Predownload && in.InPlace == nil
	if in.Off && p.jobless() {
		return a
	}
	var err error
	if ready {
		p.c.orders.setJobless(p.w.UID, p.key, true)
		in.Jobs, err = p.c.PullJobs.Owned(ctx, p.w.Namespace, p.w.UID)
	}
	read := ready && err == nil
	if !read || len(in.Jobs) > 0 {
		p.c.orders.setJobless(p.w.UID, p.key, false)
	}
	if wait && (asked && p.d.Predownload || in.InPlace != nil && p.waitsInPlace(read)) {
		p.recordUnlisted(s, in.Wait(p.c.PullJobs.Look)) // before it is ready that knows of no image, so every node waits
		p.state.pulls.ordered(in)
	}
	if !read {
		if !in.Off { // else there may be jobs of an earlier roll, which harm nothing until the next pass
			a.again = time.Second
		}
		return a
	}
	a.in = in
	return a
}

// predownload creates the jobs that a rollout needs, and deletes those that it no longer needs. If it fails, the rest of the pass continues.
func (p *pass) predownload(ctx context.Context, h *clustercache.Resolved, a *lookahead, plan *rollout.Plan) {
	returns := a.s.Set.Update != a.update
	if returns { // a policy has nodes return to another revision, and these wait for nothing
		*a = p.look(ctx, h, a.s, false)
	}
	if a.in == nil || p.ending != nil {
		return
	}
	if !returns && endless(a.s, plan) {
		a.again = endlessRetry
	}
	out := predownload.Decide(a.in)
	p.serve(a.in, &out, plan)
	if len(out.Create) > 0 {
		p.c.orders.setJobless(p.w.UID, p.key, false)
	}
	if err := p.pullAhead(ctx, h, a, &out); err != nil {
		a.again = predownloadRetry
	}
}

// serve keeps the order in which the jobs of the set serve its nodes, and has the jobs look at it if it releases or holds others than before.
func (p *pass) serve(in *predownload.Input, out *predownload.Output, plan *rollout.Plan) {
	is := order{}
	if len(in.Jobs)+len(out.Create) > 0 {
		is.first, is.held = in.Order(plan)
	}
	if is.held != nil {
		in.Release(is.held)
		p.state.pulls.ordered(in)
	}
	if how := p.c.ImagesInPlace; !p.c.orders.set(p.w.UID, is) || how == nil || how.JobReleased == nil {
		return
	}
	for i := range in.Jobs {
		p.c.ImagesInPlace.JobReleased(types.NamespacedName{Namespace: in.Jobs[i].Namespace, Name: in.Jobs[i].Name})
	}
}

// mark returns the label of a revision that records the decision about it; empty for none.
func mark(r *clustercache.Revision) string {
	for _, key := range []string{kruise.PredownloadCreated, kruise.PredownloadIgnored} {
		if _, ok := r.Labels[key]; ok {
			return key
		}
	}
	return ""
}

// pullAhead carries out what was decided.
func (p *pass) pullAhead(ctx context.Context, h *clustercache.Resolved, a *lookahead, out *predownload.Output) error {
	var errs []error
	for _, name := range out.Delete {
		errs = append(errs, p.dropJob(ctx, name))
	}
	for _, i := range out.Clear {
		errs = append(errs, p.label(ctx, h, i, map[string]any{kruise.PredownloadCreated: nil, kruise.PredownloadIgnored: nil}))
	}
	var failed error
	for _, job := range out.Create {
		failed = errors.Join(failed, p.createJob(ctx, a, job))
	}
	p.state.pulls.refused = failed != nil && !onlyLater(failed)
	if wanted := a.in.Snapshot.Set.Update; failed == nil && out.Mark != "" { // while a policy undoes the revision of the template, another one
		failed = p.label(ctx, h, wanted, map[string]any{out.Mark: "true"})
	}
	return errors.Join(append(errs, failed)...)
}

func (p *pass) createJob(ctx context.Context, a *lookahead, job *v1beta1.ImagePullJob) error {
	job.OwnerReferences = []metav1.OwnerReference{p.owner()}
	err := p.write(ctx, writesPullJob, func(ctx context.Context) error {
		err := p.c.PullJobs.Create(ctx, job)
		p.c.Observer.Wrote("create-imagepulljob", err)
		switch {
		case apierrors.IsAlreadyExists(err):
			return nil // by an earlier pass
		case err != nil:
			return err
		}
		p.c.Events.Event(p.object(), corev1.EventTypeNormal, base.ReasonCreatedPullJob, fmt.Sprintf(textJobCreated, job.Name, job.Spec.Image))
		return nil
	})
	if err != nil && !onlyLater(err) {
		p.problem(a, base.ReasonFailedPullJob, textJobFailed, job.Name, err)
	}
	return err
}

func (p *pass) dropJob(ctx context.Context, name string) error {
	err := p.write(ctx, writesPullJob, func(ctx context.Context) error { return p.c.PullJobs.Delete(ctx, p.w.Namespace, name) })
	p.recordFailure(err, base.ReasonFailedPullJob)
	return err
}

// label changes labels of a revision of the history; nil removes one.
func (p *pass) label(ctx context.Context, h *clustercache.Resolved, i int, labels map[string]any) error {
	r := &h.Revisions[i]
	err := p.patchRevision(ctx, r, metadataPatch(r.UID, "labels", labels))
	if errors.Is(err, errHistoryMoved) {
		return nil // that is how it says that it has been done
	}
	return err
}
