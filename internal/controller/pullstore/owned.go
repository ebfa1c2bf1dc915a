// SPDX-License-Identifier: Apache-2.0

package pullstore

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/imagepull"
	"everynode.dev/everynode/internal/imageref"
	"everynode.dev/everynode/internal/predownload"
	"everynode.dev/everynode/internal/rollout"
)

// PullJobs are the jobs and NodeImages as daemon sets see them, which make jobs for their updates and wait for images. Make them with
// Watches.PullJobs.
type PullJobs struct {
	store *Store
	// live reads from the API server itself, and writes.
	live client.Client
	// changed is called with the UID of a set when its jobs, or nodes with an image of them, have changed.
	changed func(set types.UID)

	mu       sync.Mutex
	images   map[string]*v1beta1.NodeImage // as the watch shows them, not to be changed
	excluded map[string]bool               // nodes that pull nothing: no job counts them

	// Refused reports whether the API server has refused the last change of a NodeImage for the job with that UID; nil where this is not known. It
	// must be set before the first call of Look.
	Refused func(job types.UID, node string) bool

	ready bool
	why   string
}

// PullJobs returns them. live writes the jobs; the loop over daemon sets limits its requests. changed is called with the UID of the owner of a job when
// the job is created or deleted, or a node has made progress with its image; it must not block. It must be called before Start.
func (w *Watches) PullJobs(store *Store, live client.Client, changed func(set types.UID)) *PullJobs {
	p := &PullJobs{store: store, live: live, changed: changed, images: map[string]*v1beta1.NodeImage{}, excluded: map[string]bool{}}
	w.Handle(NodeImages, p.imageChanged)
	w.Handle(Nodes, p.nodeChanged)
	w.Handle(Jobs, func(_ context.Context, obj, old client.Object) {
		// While a job runs only its status changes, which is not news.
		if obj == nil || old == nil || (obj.GetDeletionTimestamp() == nil) != (old.GetDeletionTimestamp() == nil) {
			p.ownerChanged(anyOf(obj, old))
		}
	})
	return p
}

func anyOf(obj, old client.Object) client.Object {
	if obj != nil {
		return obj
	}
	return old
}

func (p *PullJobs) imageChanged(ctx context.Context, obj, old client.Object) {
	now, there := obj.(*v1beta1.NodeImage)
	before, was := old.(*v1beta1.NodeImage)
	p.mu.Lock()
	if there {
		p.images[now.Name] = now
	} else {
		delete(p.images, old.GetName())
	}
	p.mu.Unlock()
	if there && was && imagepull.SameOutcome(now, before) {
		return
	}
	owners := map[types.NamespacedName]bool{}
	for _, image := range []*v1beta1.NodeImage{now, before} {
		if image != nil {
			for key := range imagepull.Owners(image) {
				owners[key] = true
			}
		}
	}
	for key := range owners {
		if job, err := p.store.Job(ctx, key); err == nil && job != nil {
			p.ownerChanged(job)
		}
	}
}

func (p *PullJobs) nodeChanged(_ context.Context, obj, old client.Object) {
	now, there := obj.(*corev1.Node)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !there:
		delete(p.excluded, old.GetName())
	case CanPull(now) || now.DeletionTimestamp != nil:
		delete(p.excluded, now.Name)
	default:
		p.excluded[now.Name] = true
	}
}

func (p *PullJobs) ownerChanged(job client.Object) {
	if owner := metav1.GetControllerOfNoCopy(job); owner != nil {
		p.changed(owner.UID)
	}
}

// Started records that everything that there was has been seen.
func (p *PullJobs) Started() { p.set(true, "") }

// Missing records why there are no image pulls here.
func (p *PullJobs) Missing(why string) { p.set(false, why) }

func (p *PullJobs) set(ready bool, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready, p.why = ready, why
}

// Serving reports whether all existing objects have been read. If not, why describes what is missing; it is empty if the read is expected to finish in a
// moment.
func (p *PullJobs) Serving() (ready bool, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready, p.why
}

// Owned are the jobs in a namespace that the object with that UID controls.
func (p *PullJobs) Owned(ctx context.Context, namespace string, set types.UID) ([]predownload.Job, error) {
	all, err := p.store.Jobs(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var owned []predownload.Job
	for i := range all {
		job := &all[i]
		if metav1.IsControlledBy(job, &metav1.ObjectMeta{UID: set}) && job.DeletionTimestamp == nil {
			owned = append(owned, predownload.Job{
				Namespace: job.Namespace, Name: job.Name, Hash: job.Labels[appsv1.ControllerRevisionHashLabelKey], Image: job.Spec.Image, UID: job.UID,
				Created: rollout.Time(job.CreationTimestamp.UnixNano()), Stays: job.Spec.CompletionPolicy.Type == v1beta1.CompletionNever,
			})
		}
	}
	return owned, nil
}

// Look implements predownload.Look on what the watch has shown.
func (p *PullJobs) Look(image string, job *predownload.Job) func(node string) predownload.Pulled {
	name, tag, err := imageref.Split(image)
	if err != nil {
		// No node can pull it, so no node waits: the status of the pods shows the problem.
		return func(string) predownload.Pulled { return predownload.Pulled{There: true} }
	}
	uid, created := types.UID(""), rollout.Time(0)
	if job != nil {
		uid, created = job.UID, job.Created
	}
	return func(node string) predownload.Pulled {
		p.mu.Lock()
		of, excluded := p.images[node], p.excluded[node]
		p.mu.Unlock()
		if excluded {
			return predownload.Pulled{There: true} // no job includes it, so there is nothing to wait for
		}
		s := imagepull.ImageStateOf(of, name, tag, uid)
		pulled := predownload.Pulled{There: s.There}
		if !s.Since.IsZero() {
			// The pull may be older than the job that has joined it.
			pulled.Ordered = max(rollout.Time(s.Since.UnixNano()), created)
		}
		pulled.Unlisted = !s.There && s.Since.IsZero() && job != nil && p.unlisted(of, name, job)
		return pulled
	}
}

// unlisted reports whether the image of that name cannot be added to the NodeImage of a node for a job.
func (p *PullJobs) unlisted(of *v1beta1.NodeImage, name string, job *predownload.Job) bool {
	if of == nil {
		return false // it comes with the next look at the node
	}
	claim := imagepull.Claim{Namespace: job.Namespace, Awaited: job.Stays}
	return !claim.Room(of, name) || p.Refused != nil && p.Refused(job.UID, of.Name)
}

// Create creates a job. An existing job with that name and the same controller counts as success.
func (p *PullJobs) Create(ctx context.Context, job *v1beta1.ImagePullJob) error {
	err := p.live.Create(ctx, job)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	found := &v1beta1.ImagePullJob{}
	if getErr := p.live.Get(ctx, client.ObjectKeyFromObject(job), found); getErr != nil {
		return fmt.Errorf("reading the existing job: %w", getErr)
	}
	owner := metav1.GetControllerOfNoCopy(job)
	if owner == nil || !metav1.IsControlledBy(found, &metav1.ObjectMeta{UID: owner.UID}) || found.DeletionTimestamp != nil {
		return fmt.Errorf("a job with this name has another owner or is being deleted")
	}
	return err
}

// Delete deletes a job, which may be gone already.
func (p *PullJobs) Delete(ctx context.Context, namespace, name string) error {
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return client.IgnoreNotFound(p.live.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}
