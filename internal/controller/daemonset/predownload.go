// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/fleet"
	"everynode.dev/everynode/internal/predownload"
	"everynode.dev/everynode/internal/rollout"
)

// Reasons and texts of events about pulling ahead, as OpenKruise has them; there a failure is no warning.
const (
	reasonJobCreated = "CreatedImagePullJob"
	reasonJobFailed  = "FailedCreateImagePullJob"
	textJobCreated   = "created ImagePullJob %s for image: %s"
	textJobFailed    = "failed to create ImagePullJob %s: %v"
)

// predownloadRetry is when a pass is repeated whose jobs could not be made. The update does not wait for them.
const predownloadRetry = 10 * time.Second

// PullJobs are the reads and writes of ImagePullJobs that the loop needs.
type PullJobs interface {
	// Owned are the jobs in a namespace that the set with that UID controls.
	Owned(ctx context.Context, namespace string, set types.UID) ([]predownload.Job, error)
	Create(ctx context.Context, job *v1beta1.ImagePullJob) error
	Delete(ctx context.Context, namespace, name string) error
}

// orders keeps in which order the nodes of sets are served that pull ahead.
type orders struct {
	mu sync.Mutex
	of map[types.UID][]string
}

func (o *orders) set(uid types.UID, order []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(order) == 0 {
		delete(o.of, uid)
		return
	}
	if o.of == nil {
		o.of = map[types.UID][]string{}
	}
	o.of[uid] = order
}

// Order is in which order the nodes of the set with that UID are served; nil if it pulls nothing ahead.
func (c *Controller) Order(set types.UID) []string {
	c.orders.mu.Lock()
	defer c.orders.mu.Unlock()
	return c.orders.of[set]
}

// predownload makes the jobs that a roll needs, and removes those that it does not need any more. Nothing else of the pass fails with
// it; the duration returned says when to come back for what could not be done.
func (p *pass) predownload(ctx context.Context, h *fleet.Resolved, s *rollout.Snapshot, plan *rollout.Plan) time.Duration {
	if p.c.PullJobs == nil || !p.d.Predownload {
		return 0
	}
	in := predownload.Input{Set: p.w, Snapshot: s}
	for i := range h.Entries {
		in.Revisions = append(in.Revisions, predownload.Revision{
			Name: h.Entries[i].Name, Hash: h.Entries[i].Hash, Template: h.Entries[i].Template, Mark: mark(&h.Revisions[i]),
		})
	}
	var err error
	if in.Jobs, err = p.c.PullJobs.Owned(ctx, p.w.Namespace, p.w.UID); err != nil {
		return predownloadRetry
	}
	out := predownload.Decide(&in)
	if len(in.Jobs)+len(out.Create) > 0 {
		p.c.orders.set(p.w.UID, predownload.Order(s, plan))
	} else {
		p.c.orders.set(p.w.UID, nil)
	}
	if err := p.pullAhead(ctx, h, &out); err != nil {
		return predownloadRetry
	}
	return 0
}

// mark is the label of a revision that says what was decided about it; empty for none.
func mark(r *fleet.Revision) string {
	for _, key := range []string{kruise.PredownloadCreated, kruise.PredownloadIgnored} {
		if _, ok := r.Labels[key]; ok {
			return key
		}
	}
	return ""
}

// pullAhead carries out what was decided.
func (p *pass) pullAhead(ctx context.Context, h *fleet.Resolved, out *predownload.Output) error {
	var errs []error
	for _, name := range out.Delete {
		errs = append(errs, p.c.PullJobs.Delete(ctx, p.w.Namespace, name))
	}
	for _, i := range out.Clear {
		errs = append(errs, p.label(ctx, h, i, map[string]any{kruise.PredownloadCreated: nil, kruise.PredownloadIgnored: nil}))
	}
	var failed error
	for _, job := range out.Create {
		failed = errors.Join(failed, p.createJob(ctx, job))
	}
	if failed == nil && out.Mark != "" {
		failed = p.label(ctx, h, h.Current, map[string]any{out.Mark: "true"})
	}
	return errors.Join(append(errs, failed)...)
}

func (p *pass) createJob(ctx context.Context, job *v1beta1.ImagePullJob) error {
	job.OwnerReferences = []metav1.OwnerReference{p.owner()}
	err := p.c.PullJobs.Create(ctx, job)
	p.c.Observer.Wrote("create-imagepulljob", err)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // by an earlier pass
	case err != nil:
		p.c.Events.Event(p.object(), corev1.EventTypeWarning, reasonJobFailed, fmt.Sprintf(textJobFailed, job.Name, err))
		return err
	default:
		p.c.Events.Event(p.object(), corev1.EventTypeNormal, reasonJobCreated, fmt.Sprintf(textJobCreated, job.Name, job.Spec.Image))
		return nil
	}
}

// label changes labels of a revision of the history; nil removes one.
func (p *pass) label(ctx context.Context, h *fleet.Resolved, i int, labels map[string]any) error {
	r := &h.Revisions[i]
	err := p.patchRevision(ctx, r, metadataPatch(r.UID, "labels", labels))
	if errors.Is(err, errHistoryMoved) {
		return nil // that is how it says that it has been done
	}
	return err
}
