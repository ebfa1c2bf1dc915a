// SPDX-License-Identifier: Apache-2.0

package pullstore

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// What to do where a cluster has no image pulls.
const (
	remedyDefinition = "apply what image pulls need (kubectl apply --server-side -f config/kruise), or install OpenKruise"
	remedyRights     = "bind the ClusterRole everynode-manager-image-pulls to the service account of the manager"
)

// Missing describes what a cluster lacks for image pulls; empty if nothing is missing. With an error, this is not known.
func (s *Store) Missing(ctx context.Context) (string, error) {
	for resource, list := range map[string]client.ObjectList{kruise.ResourceJob: &v1beta1.ImagePullJobList{}, kruise.ResourceNodeImage: &v1beta1.NodeImageList{}} {
		err := s.live.List(ctx, list, client.Limit(1))
		switch {
		case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
			return fmt.Sprintf("the CRD %s.%s does not exist: %s", resource, kruise.Group, remedyDefinition), nil
		case apierrors.IsForbidden(err):
			return fmt.Sprintf("the manager may not read %s.%s: %s", resource, kruise.Group, remedyRights), nil
		case err != nil:
			return "", fmt.Errorf("listing %s: %w", resource, err)
		}
	}
	return "", nil
}

// CatchUp returns when the watches are at least as new as the call of CatchUp: another manager may have written until then.
func (s *Store) CatchUp(ctx context.Context) error {
	for _, kind := range []string{kruise.KindJob, kruise.KindNodeImage} {
		err := wait.PollUntilContextCancel(ctx, catchUpEvery, true, func(ctx context.Context) (bool, error) {
			// Listed again each time: an object that was deleted since the last list would never appear.
			now := &metav1.PartialObjectMetadataList{}
			now.SetGroupVersionKind(v1beta1.GroupVersion().WithKind(kind + "List"))
			if err := s.live.List(ctx, now); err != nil {
				return false, err
			}
			shown, err := s.shown(ctx, kind)
			return err == nil && isAtLeast(shown, now), err
		})
		if err != nil {
			return fmt.Errorf("waiting for the watch of %s: %w", kind, err)
		}
	}
	return nil
}

const catchUpEvery = 500 * time.Millisecond

// shown are the versions of the objects of a kind that the watch has shown.
func (s *Store) shown(ctx context.Context, kind string) (map[types.NamespacedName]string, error) {
	var list client.ObjectList = &v1beta1.NodeImageList{}
	if kind == kruise.KindJob {
		list = &v1beta1.ImagePullJobList{}
	}
	if err := s.cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	shown := map[types.NamespacedName]string{}
	err := meta.EachListItem(list, func(obj runtime.Object) error {
		m, err := meta.Accessor(obj)
		if err == nil {
			shown[types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}] = m.GetResourceVersion()
		}
		return err
	})
	return shown, err
}

// isAtLeast reports whether the watch has reached a list: nothing in the list is newer than the shown objects, and no shown object was deleted before the list.
func isAtLeast(shown map[types.NamespacedName]string, now *metav1.PartialObjectMetadataList) bool {
	atLeast := func(a, b string) bool {
		order, err := resourceversion.CompareResourceVersion(a, b)
		return err == nil && order >= 0
	}
	for i := range now.Items {
		key := types.NamespacedName{Namespace: now.Items[i].Namespace, Name: now.Items[i].Name}
		version, ok := shown[key]
		if !ok || !atLeast(version, now.Items[i].ResourceVersion) {
			return false
		}
		delete(shown, key)
	}
	for _, version := range shown {
		if !atLeast(version, now.ResourceVersion) {
			return false // it has gone; what came after the list is newer than it
		}
	}
	return true
}
