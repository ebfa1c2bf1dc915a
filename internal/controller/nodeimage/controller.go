// SPDX-License-Identifier: Apache-2.0

// Package nodeimage keeps a NodeImage for every node: it is created and deleted with the node, has its labels, and loses images that
// are not wanted any more.
package nodeimage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/controller/loop"
	"everynode.dev/everynode/internal/controller/pullstore"
	"everynode.dev/everynode/internal/imagepull"
)

// Controller is the loop over nodes. Make one with New.
type Controller struct {
	store    *pullstore.Store
	events   record.EventRecorder
	clock    clock.WithTicker
	mayWrite func() bool
	loop     *loop.Loop[string]
}

// workers is how many nodes are looked at at once.
const workers = 2

// New returns a Controller that writes only while mayWrite returns true.
func New(store *pullstore.Store, events record.EventRecorder, c clock.WithTicker, mayWrite func() bool) *Controller {
	n := &Controller{store: store, events: events, clock: c, mayWrite: mayWrite}
	n.loop = loop.New("nodeimage", c, n.Reconcile)
	return n
}

// Watch registers the event handlers of the controller.
func (c *Controller) Watch(w *pullstore.Watches) {
	w.Handle(pullstore.Nodes, c.nodeChanged)
	w.Handle(pullstore.NodeImages, func(_ context.Context, obj, old client.Object) { c.loop.Enqueue(anyOf(obj, old).GetName()) })
	w.Handle(pullstore.Jobs, c.jobChanged)
}

func anyOf(obj, old client.Object) client.Object {
	if obj != nil {
		return obj
	}
	return old
}

// nodeChanged asks for a pass unless nothing has changed that matters: kubelets write the status of their nodes often.
func (c *Controller) nodeChanged(_ context.Context, obj, old client.Object) {
	now, ok := obj.(*corev1.Node)
	before, was := old.(*corev1.Node)
	if ok && was {
		isReady, _ := pullstore.Readiness(now)
		wasReady, _ := pullstore.Readiness(before)
		if isReady == wasReady && now.UID == before.UID && maps.Equal(now.Labels, before.Labels) && pullstore.CanPull(now) == pullstore.CanPull(before) {
			return
		}
	}
	c.loop.Enqueue(anyOf(obj, old).GetName())
}

// jobChanged requests a pass for the nodes of a job that is gone or has ended. A worker determines these nodes, because this requires a scan of all NodeImages.
func (c *Controller) jobChanged(_ context.Context, obj, old client.Object) {
	job, ok := anyOf(obj, old).(*v1beta1.ImagePullJob)
	before, was := old.(*v1beta1.ImagePullJob)
	if !ok || !was || obj != nil && imagepull.StateOf(job) == imagepull.StateOf(before) {
		return
	}
	c.loop.Enqueue(nodesOf + string(job.UID))
}

// nodesOf and the UID of a job are the key for its nodes; none has this name.
const nodesOf = "job/"

// enqueueNodesOf asks for a pass for every node that pulls something for the job.
func (c *Controller) enqueueNodesOf(ctx context.Context, job types.UID) error {
	nodes, err := c.store.Nodes(ctx)
	for i := range nodes {
		if nodes[i].Image != nil && imagepull.Owns(nodes[i].Image, job) {
			c.loop.Enqueue(nodes[i].Name)
		}
	}
	return err
}

// EnqueueAll asks for a pass for every node.
func (c *Controller) EnqueueAll() { c.loop.Enqueue(everyNode) }

// everyNode is the key for all nodes; none has this name.
const everyNode = ""

// enqueueAll asks for a pass for every node.
func (c *Controller) enqueueAll(ctx context.Context) error {
	nodes, err := c.store.Nodes(ctx)
	for i := range nodes {
		c.loop.Enqueue(nodes[i].Name)
	}
	return err
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) { c.loop.Run(ctx, workers) }

// Reconcile is one pass for the node of that name.
func (c *Controller) Reconcile(ctx context.Context, name string) (time.Duration, error) {
	if !c.mayWrite() {
		return 0, nil
	}
	if name == everyNode {
		return 0, c.enqueueAll(ctx)
	}
	if job, ok := strings.CutPrefix(name, nodesOf); ok {
		return 0, c.enqueueNodesOf(ctx, types.UID(job))
	}
	node, image, err := c.store.Node(ctx, name)
	if err != nil {
		return 0, err
	}
	switch {
	case node == nil || !pullstore.CanPull(node):
		if image == nil || image.DeletionTimestamp != nil {
			return 0, nil
		}
		return 0, c.store.Delete(ctx, image)
	case image == nil:
		return 0, c.store.Create(ctx, newImage(node))
	case image.DeletionTimestamp != nil:
		return 0, nil
	case ofAnother(image, node):
		return 0, c.store.Delete(ctx, image) // and its deletion leads to the next pass
	}
	copyErr := c.copyMetadata(ctx, node, image)
	if pullstore.IsOutdated(copyErr) {
		return retryOutdated(copyErr)
	}
	// A policy that refuses labels must not keep images listed that no job wants.
	after, err := c.sweep(ctx, node, image)
	return after, errors.Join(err, copyErr)
}

func newImage(node *corev1.Node) *v1beta1.NodeImage {
	return &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{
		Name: node.Name, Labels: maps.Clone(node.Labels), OwnerReferences: []metav1.OwnerReference{ownerOf(node)},
	}}
}

// ownerOf returns the owner reference by which a NodeImage is deleted with its node, even while no manager runs.
func ownerOf(node *corev1.Node) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
}

// ofAnother reports whether a NodeImage belongs to an earlier node of the same name, whose images are gone.
func ofAnother(image *v1beta1.NodeImage, node *corev1.Node) bool {
	for _, owner := range image.OwnerReferences {
		if owner.Kind == "Node" && owner.UID != node.UID {
			return true
		}
	}
	return false
}

// copyMetadata gives the NodeImage the labels of the node, and an owner reference if it has none: NodeImages that OpenKruise created have none.
func (c *Controller) copyMetadata(ctx context.Context, node *corev1.Node, image *v1beta1.NodeImage) error {
	if maps.Equal(node.Labels, image.Labels) && len(image.OwnerReferences) > 0 {
		return nil
	}
	labels := map[string]any{}
	for key := range image.Labels {
		labels[key] = nil
	}
	for key, value := range node.Labels {
		labels[key] = value
	}
	metadata := map[string]any{"uid": image.UID, "labels": labels}
	if len(image.OwnerReferences) == 0 {
		metadata["ownerReferences"] = []metav1.OwnerReference{ownerOf(node)}
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encoding the labels of %s: %w", node.Name, err)
	}
	return c.store.MergeMetadata(ctx, image.Name, patch)
}

// retryOutdated repeats a pass if its object has changed since it was read.
func retryOutdated(err error) (time.Duration, error) {
	if pullstore.IsOutdated(err) {
		return time.Second, nil
	}
	return 0, err
}

// sweep removes expired images from the NodeImage, and fails tags that the node will never report.
func (c *Controller) sweep(ctx context.Context, node *corev1.Node, image *v1beta1.NodeImage) (time.Duration, error) {
	ready, since := pullstore.Readiness(node)
	var failed error
	s := imagepull.Sweep{Now: c.clock.Now(), Image: image, Ready: ready, Since: since, Owner: func(r *corev1.ObjectReference) imagepull.OwnerState {
		state, err := c.store.Owner(ctx, r)
		if err != nil {
			failed = err
		}
		return state
	}}
	swept := s.Run()
	if failed != nil {
		return 0, failed
	}
	if swept.Edit != nil {
		// The pass that this write triggers does the marking.
		return retryOutdated(c.store.Edit(ctx, swept.Edit))
	}
	if swept.Status != nil {
		if err := c.store.SetStatus(ctx, image, swept.Status); err != nil {
			return retryOutdated(err)
		}
		for _, e := range swept.Events {
			c.events.Event(subject(image), corev1.EventTypeWarning, e.Reason, e.Message)
		}
	}
	if swept.Wake.IsZero() {
		return 0, nil
	}
	return max(swept.Wake.Sub(s.Now), time.Second), nil
}

// subject is what an event about a NodeImage is about; objects from a cache have no kind.
func subject(image *v1beta1.NodeImage) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: v1beta1.GroupVersion().String(), Kind: "NodeImage", Name: image.Name, UID: image.UID}
}
