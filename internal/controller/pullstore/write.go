// SPDX-License-Identifier: Apache-2.0

package pullstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/imagepull"
)

// IsOutdated reports whether a write was refused because its object has changed or gone: the next pass decides again. Admission may refuse with the same codes.
func IsOutdated(err error) bool {
	answer := apply.OfDelete(err)
	return answer == apply.Differs || answer == apply.Gone
}

// isDefinite reports whether an error says for sure that the write did not take effect.
func isDefinite(err error) bool { return apply.OfDelete(err) != apply.Unclear }

// Edit makes an edit of a NodeImage.
func (s *Store) Edit(ctx context.Context, e *imagepull.Edit) error {
	patch, err := e.Patch()
	if err != nil {
		return err
	}
	return s.patch(ctx, e.Node, client.RawPatch(types.JSONPatchType, patch))
}

// MergeMetadata changes the metadata of a NodeImage by a JSON merge patch.
func (s *Store) MergeMetadata(ctx context.Context, name string, patch []byte) error {
	return s.patch(ctx, name, client.RawPatch(types.MergePatchType, patch))
}

func (s *Store) patch(ctx context.Context, name string, patch client.Patch) error {
	image := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return s.answered(name, image, s.live.Patch(ctx, image, patch))
}

// SetStatus writes the status of a NodeImage that it was made from.
func (s *Store) SetStatus(ctx context.Context, image *v1beta1.NodeImage, status *v1beta1.NodeImageStatus) error {
	patch, err := imagepull.StatusPatch(image, status)
	if err != nil {
		return err
	}
	answer := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: image.Name}}
	return s.answered(image.Name, answer, s.live.Status().Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch)))
}

// answered keeps the answer to a write of a NodeImage, or marks the write as unconfirmed.
func (s *Store) answered(name string, answer *v1beta1.NodeImage, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.images[name] = answer
		return nil
	case !isDefinite(err):
		s.unconfirmed[name] = true
	}
	return fmt.Errorf("writing the node image %s: %w", name, err)
}

// ResolveUnconfirmed reads the NodeImages with unconfirmed writes. It must succeed before anything is decided.
func (s *Store) ResolveUnconfirmed(ctx context.Context) error {
	s.mu.Lock()
	names := slices.Sorted(maps.Keys(s.unconfirmed))
	s.mu.Unlock()
	for _, name := range names {
		image := &v1beta1.NodeImage{}
		err := s.live.Get(ctx, types.NamespacedName{Name: name}, image)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading the node image %s after an unconfirmed write: %w", name, err)
		}
		s.mu.Lock()
		delete(s.unconfirmed, name)
		if err == nil {
			s.images[name] = image
		}
		s.mu.Unlock()
	}
	return nil
}

// Create creates the NodeImage of a node.
func (s *Store) Create(ctx context.Context, image *v1beta1.NodeImage) error {
	if err := s.live.Create(ctx, image); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the node image %s: %w", image.Name, err)
	}
	return nil
}

// Delete deletes an object, unless it was recreated since.
func (s *Store) Delete(ctx context.Context, obj client.Object) error {
	uid := obj.GetUID()
	err := s.live.Delete(ctx, obj, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !IsOutdated(err) {
		return fmt.Errorf("deleting %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	return nil
}

// SetJobStatus writes the status of a job.
func (s *Store) SetJobStatus(ctx context.Context, job *v1beta1.ImagePullJob, status v1beta1.ImagePullJobStatus) error {
	answer := job.DeepCopy()
	answer.Status = status
	if err := s.live.Status().Update(ctx, answer); err != nil {
		return fmt.Errorf("writing the status of the job %s: %w", client.ObjectKeyFromObject(job), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[client.ObjectKeyFromObject(job)] = answer
	return nil
}
