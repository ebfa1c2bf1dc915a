// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/api/kruise"
)

// Blocks that the samples use.
const (
	DefaultLabel     = "example.io/block-deleting"
	DefaultFinalizer = "example.io/unready-blocker"
)

// Work is the work that must be done before a pod may be deleted. The node is nil if it no longer exists.
// After an error, the pod is kept, and the work is tried again later.
type Work func(ctx context.Context, pod *corev1.Pod, node *corev1.Node) error

// Options say for which pods this controller is there.
type Options struct {
	// Namespace limits the controller to one namespace; empty means all.
	Namespace string
	// Label and Finalizer are the blocks to remove; empty means none of that kind.
	Label, Finalizer string
	// Work is done for each pod; nil reserves the place of the pod, see Reserve.
	Work Work
}

// releaser releases one pod at a time.
type releaser struct {
	Options
	client kubernetes.Interface
}

// Release does the work that a pod may wait for, if it has not been done.
func (r *releaser) Release(ctx context.Context, pod *corev1.Pod) error {
	if !r.waits(pod) {
		return nil
	}
	node, err := r.nodeOf(ctx, pod)
	if err != nil {
		return err
	}
	if err := r.Work(ctx, pod, node); err != nil {
		return fmt.Errorf("working for pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return r.remove(ctx, pod)
}

// waits reports whether a pod is about to be deleted and has a block of ours. A pod that another client
// deletes does not get the state PreparingDelete; only a finalizer holds it, so the finalizer is removed too.
func (r *releaser) waits(pod *corev1.Pod) bool {
	preparing := pod.Labels[kruise.LifecycleState] == kruise.LifecyclePreparingDelete
	return preparing && r.labelled(pod) || (preparing || pod.DeletionTimestamp != nil) && r.finalized(pod)
}

func (r *releaser) labelled(pod *corev1.Pod) bool {
	_, ok := pod.Labels[r.Label]
	return ok && r.Label != ""
}

func (r *releaser) finalized(pod *corev1.Pod) bool {
	return r.Finalizer != "" && slices.Contains(pod.Finalizers, r.Finalizer)
}

// nodeOf is the node of the pod, nil when it does not exist. It asks the API server, for a node that is gone may still be in a
// cache.
func (r *releaser) nodeOf(ctx context.Context, pod *corev1.Pod) (*corev1.Node, error) {
	if pod.Spec.NodeName == "" {
		return nil, nil
	}
	node, err := r.client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking for the node of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	default:
		return node, nil
	}
}

// remove removes the blocks from the pod. The UID ensures that this does not affect a successor with the same name.
func (r *releaser) remove(ctx context.Context, pod *corev1.Pod) error {
	metadata := map[string]any{"uid": pod.UID}
	if r.labelled(pod) {
		metadata["labels"] = map[string]any{r.Label: nil}
	}
	if r.finalized(pod) {
		metadata["$deleteFromPrimitiveList/finalizers"] = []string{r.Finalizer}
	}
	// Strings and nothing else can always be encoded.
	patch, _ := json.Marshal(map[string]any{"metadata": metadata})
	_, err := r.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("releasing pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
