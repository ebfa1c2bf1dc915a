// SPDX-License-Identifier: Apache-2.0

package pullstore

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/predownload"
)

// PullJobs are the jobs as daemon sets see them, which make some for their updates.
type PullJobs struct{ store *Store }

// PullJobs returns them.
func (s *Store) PullJobs() PullJobs { return PullJobs{s} }

// Owned are the jobs in a namespace that the object with that UID controls.
func (p PullJobs) Owned(ctx context.Context, namespace string, set types.UID) ([]predownload.Job, error) {
	all, err := p.store.Jobs(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var owned []predownload.Job
	for i := range all {
		if owner := metav1.GetControllerOfNoCopy(&all[i]); owner != nil && owner.UID == set && all[i].DeletionTimestamp == nil {
			owned = append(owned, predownload.Job{Name: all[i].Name, Hash: all[i].Labels[appsv1.ControllerRevisionHashLabelKey]})
		}
	}
	return owned, nil
}

// Create creates a job.
func (p PullJobs) Create(ctx context.Context, job *v1beta1.ImagePullJob) error {
	return p.store.live.Create(ctx, job)
}

// Delete deletes a job, which may be gone already.
func (p PullJobs) Delete(ctx context.Context, namespace, name string) error {
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return client.IgnoreNotFound(p.store.live.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}
