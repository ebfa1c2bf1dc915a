// SPDX-License-Identifier: Apache-2.0

// Package pullstore is what the controllers for image pulls know of the cluster: nodes, NodeImages, ImagePullJobs and, where a
// job follows pods, pods.
//
// Vocabulary: an answer is the object that the API server returned for a write. Until the watch has caught up with it, it replaces the object of the
// watch, so that a pass never decides on a view that is older than its own writes. A write is unconfirmed when it is not known whether it took effect;
// the NodeImage is then read from the API server before anything else is decided.
package pullstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/imagepull"
)

// Store is the knowledge. Make one with New.
type Store struct {
	cached client.Reader
	live   client.Client

	mu          sync.Mutex
	images      map[string]*v1beta1.NodeImage
	jobs        map[types.NamespacedName]*v1beta1.ImagePullJob
	unconfirmed map[string]bool
}

// New returns a Store that reads from cached, and reads and writes with live.
func New(cached client.Reader, live client.Client) *Store {
	return &Store{
		cached: cached, live: live,
		images: map[string]*v1beta1.NodeImage{}, jobs: map[types.NamespacedName]*v1beta1.ImagePullJob{}, unconfirmed: map[string]bool{},
	}
}

// Live reads from the API server itself, and writes.
func (s *Store) Live() client.Client { return s.live }

// newer reports whether the answer a is newer than what the watch has shown.
func newer(a, shown client.Object) bool {
	if a.GetUID() != shown.GetUID() {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), shown.GetResourceVersion())
	return err == nil && c > 0
}

// Nodes are all nodes, sorted by name. The caller must not change them.
func (s *Store) Nodes(ctx context.Context) ([]imagepull.Node, error) {
	nodes, images := &corev1.NodeList{}, &v1beta1.NodeImageList{}
	if err := errors.Join(s.cached.List(ctx, nodes, client.UnsafeDisableDeepCopy), s.cached.List(ctx, images, client.UnsafeDisableDeepCopy)); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	byName := make(map[string]*v1beta1.NodeImage, len(images.Items))
	for i := range images.Items {
		byName[images.Items[i].Name] = s.newest(&images.Items[i])
	}
	all := make([]imagepull.Node, 0, len(nodes.Items))
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if CanPull(n) {
			all = append(all, imagepull.Node{Name: n.Name, Labels: n.Labels, Ready: ready(n), Image: byName[n.Name]})
		}
	}
	slices.SortFunc(all, func(a, b imagepull.Node) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// CanPull reports whether a node can pull images: it exists and is not virtual.
func CanPull(n *corev1.Node) bool {
	return n.DeletionTimestamp == nil && n.Labels["type"] != "virtual-kubelet"
}

func ready(n *corev1.Node) bool {
	ok, _ := Readiness(n)
	return ok
}

// Readiness reports whether a node is ready, and when this last changed.
func Readiness(n *corev1.Node) (ready bool, since time.Time) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, n.CreationTimestamp.Time
}

// newest returns the answer to our last write, if it is newer than the object from the watch.
func (s *Store) newest(shown *v1beta1.NodeImage) *v1beta1.NodeImage {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := s.images[shown.Name]
	switch {
	case answer == nil:
		return shown
	case newer(answer, shown):
		return answer
	default:
		delete(s.images, shown.Name)
		return shown
	}
}

// Node is the node of that name, and its NodeImage; each is nil if there is none.
func (s *Store) Node(ctx context.Context, name string) (*corev1.Node, *v1beta1.NodeImage, error) {
	node, image := &corev1.Node{}, &v1beta1.NodeImage{}
	if err := s.cached.Get(ctx, types.NamespacedName{Name: name}, node); apierrors.IsNotFound(err) {
		node = nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("reading the node %s: %w", name, err)
	}
	if err := s.cached.Get(ctx, types.NamespacedName{Name: name}, image); apierrors.IsNotFound(err) {
		return node, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("reading the node image %s: %w", name, err)
	}
	return node, s.newest(image), nil
}

// Job is the job of that name; nil if there is none.
func (s *Store) Job(ctx context.Context, key types.NamespacedName) (*v1beta1.ImagePullJob, error) {
	job := &v1beta1.ImagePullJob{}
	err := s.cached.Get(ctx, key, job)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch answer := s.jobs[key]; {
	case apierrors.IsNotFound(err):
		delete(s.jobs, key)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the job %s: %w", key, err)
	case answer != nil && newer(answer, job):
		return answer.DeepCopy(), nil
	default:
		delete(s.jobs, key)
		return job, nil
	}
}

// Jobs are all jobs in a namespace, or of all with "". The caller must not change them.
func (s *Store) Jobs(ctx context.Context, namespace string) ([]v1beta1.ImagePullJob, error) {
	list := &v1beta1.ImagePullJobList{}
	if err := s.cached.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing jobs: %w", err)
	}
	return list.Items, nil
}

// Owner returns the state of an owner of a tag.
func (s *Store) Owner(ctx context.Context, r *corev1.ObjectReference) (imagepull.OwnerState, error) {
	if !imagepull.IsJob(r) {
		return imagepull.OwnerElse, nil
	}
	job, err := s.Job(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
	switch {
	case err != nil:
		return imagepull.OwnerElse, err
	case job == nil || job.UID != r.UID:
		return imagepull.OwnerGone, nil
	default:
		return imagepull.StateOf(job), nil
	}
}
