// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// podState is the state of a pod on its node. The queue gives each pod to one worker at a time, so it needs no lock.
type podState struct {
	uid types.UID
	pod *Pod
	// written is the resource version of our last write: older versions are ignored.
	written string
	// gone reports that we have deleted the object.
	gone bool
}

// nodeState is the state of a node without its pods.
type nodeState struct {
	// mu guards images.
	mu     sync.Mutex
	images *ImageStore
	// reported is how many images the node's status lists.
	reported int
}

// sync makes a transition of one pod and writes the result.
func (k *Kubelet) sync(ctx context.Context, name cache.ObjectName) error {
	obj, exists, err := k.pods.GetStore().GetByKey(name.String())
	if err != nil {
		return fmt.Errorf("looking up the pod: %w", err)
	}
	if !exists {
		k.forgetPod(name)
		return nil
	}
	pod := obj.(*v1.Pod)
	node := k.node(pod.Spec.NodeName)
	if node == nil || !Connected(node) {
		return nil
	}
	state, err := k.state(name, pod, node)
	if err != nil || state.gone || k.stale(pod, state) {
		return err
	}
	out := k.advance(state, pod, node)
	if !out.Wake.IsZero() {
		k.queue.AddAfter(name, max(out.Wake.Sub(k.Clock.Now()), 0))
	}
	switch {
	case out.Delete:
		return k.delete(ctx, pod, state)
	case out.Status != nil:
		return k.patch(ctx, pod, state, out.Status)
	}
	return nil
}

func (k *Kubelet) node(name string) *v1.Node {
	obj, exists, err := k.nodes.GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil
	}
	return obj.(*v1.Node)
}

func (k *Kubelet) advance(state *podState, pod *v1.Pod, node *v1.Node) Output {
	ns := k.nodeState(node)
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return state.pod.Advance(k.input(pod, node, ns))
}

func (k *Kubelet) input(pod *v1.Pod, node *v1.Node, ns *nodeState) Input {
	return Input{
		Now:     k.Clock.Now(),
		Pod:     pod,
		Profile: k.Profile,
		Node:    Node{IP: internalIP(node), Images: ns.images, Ready: nodeReady(node)},
	}
}

// state returns the state of the pod; for a new one, it is restored from its status.
func (k *Kubelet) state(name cache.ObjectName, pod *v1.Pod, node *v1.Node) (*podState, error) {
	k.mu.Lock()
	state := k.podStates[name]
	k.mu.Unlock()
	if state != nil && state.uid == pod.UID {
		return state, nil
	}
	if state != nil {
		k.forgetPod(name)
	}
	ip := pod.Status.PodIP
	if ip == "" && !pod.Spec.HostNetwork {
		var err error
		if ip, err = k.addresses.take(); err != nil {
			return nil, err
		}
	}
	if pod.Spec.HostNetwork {
		ip = ""
	}
	ns := k.nodeState(node)
	ns.mu.Lock()
	state = &podState{uid: pod.UID, pod: NewPod(k.input(pod, node, ns), ip)}
	ns.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.podStates[name] = state
	return state, nil
}

// stale reports whether the pod is older than our last write; the watch will send the new version.
func (k *Kubelet) stale(pod *v1.Pod, state *podState) bool {
	if state.written == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(pod.ResourceVersion, state.written)
	return err == nil && order < 0
}

func (k *Kubelet) patch(ctx context.Context, pod *v1.Pod, state *podState, status *v1.PodStatus) error {
	data, err := statusPatch(pod, status)
	if err != nil {
		return err
	}
	after, err := k.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		// Deleted or recreated: the watch will send the event.
		return nil
	case err != nil:
		return fmt.Errorf("writing the pod's status: %w", err)
	}
	state.written = after.ResourceVersion
	return nil
}

func (k *Kubelet) delete(ctx context.Context, pod *v1.Pod, state *podState) error {
	err := k.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing the ended pod: %w", err)
	}
	state.gone = true
	return nil
}

func (k *Kubelet) forgetPod(name cache.ObjectName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if state := k.podStates[name]; state != nil {
		k.addresses.release(state.pod.ip)
		delete(k.podStates, name)
	}
}
