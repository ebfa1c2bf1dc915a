// SPDX-License-Identifier: Apache-2.0

package pullstore

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/controller/metrics"
)

// PullMetrics counts jobs and the pulls of nodes.
func (s *Store) PullMetrics(ctx context.Context) (metrics.Pulls, error) {
	jobs, images, p := &v1beta1.ImagePullJobList{}, &v1beta1.NodeImageList{}, metrics.Pulls{}
	if err := errors.Join(s.cached.List(ctx, jobs, client.UnsafeDisableDeepCopy), s.cached.List(ctx, images, client.UnsafeDisableDeepCopy)); err != nil {
		return p, err
	}
	for i := range jobs.Items {
		status := &jobs.Items[i].Status
		if status.CompletionTime != nil {
			p.Completed++
			continue
		}
		p.Running++
		p.Desired, p.Active = p.Desired+int(status.Desired), p.Active+int(status.Active)
		p.Succeeded, p.Failed = p.Succeeded+int(status.Succeeded), p.Failed+int(status.Failed)
	}
	for i := range images.Items {
		status := &images.Items[i].Status
		if status.Pulling > 0 {
			p.Nodes++
		}
		p.Waiting, p.Pulling = p.Waiting+int(status.Waiting), p.Pulling+int(status.Pulling)
		p.There, p.GivenUp = p.There+int(status.Succeeded), p.GivenUp+int(status.Failed)
	}
	return p, nil
}
