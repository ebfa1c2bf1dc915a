// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/kube"
)

// cluster reads the NodeImage of the node and sends the events of the agent. It has no other types, which keeps the
// program small.
type cluster struct {
	node     string
	scheme   *kuberuntime.Scheme
	kruise   rest.Interface
	core     rest.Interface
	informer cache.SharedInformer
	changed  chan struct{}
}

// newCluster returns a cluster that has read nothing yet.
func newCluster(cfg *rest.Config, node string) (*cluster, error) {
	scheme := kuberuntime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("setting up the types: %w", err)
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("setting up the client: %w", err)
	}
	c := &cluster{node: node, scheme: scheme, changed: make(chan struct{}, 1)}
	if c.kruise, err = kube.RESTClient(cfg, client, scheme, v1beta1.GroupVersion()); err != nil {
		return nil, err
	}
	if c.core, err = kube.RESTClient(cfg, client, scheme, corev1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	own := cache.NewListWatchFromClient(c.kruise, kruise.ResourceNodeImage, "", fields.OneTermEqualSelector("metadata.name", node))
	c.informer = cache.NewSharedInformer(own, &v1beta1.NodeImage{}, 0)
	_, err = c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.notify() },
		UpdateFunc: func(any, any) { c.notify() },
		DeleteFunc: func(any) { c.notify() },
	})
	return c, err
}

// notify wakes the loop; one notification is enough for many changes.
func (c *cluster) notify() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Object implements store.
func (c *cluster) Object() *v1beta1.NodeImage {
	for _, found := range c.informer.GetStore().List() {
		if object, ok := found.(*v1beta1.NodeImage); ok && object.DeletionTimestamp == nil {
			return object
		}
	}
	return nil
}

// PatchStatus implements store.
func (c *cluster) PatchStatus(ctx context.Context, patch []byte) (*v1beta1.NodeImage, error) {
	object := &v1beta1.NodeImage{}
	err := c.kruise.Patch(types.MergePatchType).Resource(kruise.ResourceNodeImage).Name(c.node).SubResource("status").
		Body(patch).Do(ctx).Into(object)
	return object, err
}

// recorder returns a recorder that sends events until ctx ends, and a function that stops it.
func (c *cluster) recorder(ctx context.Context) (record.EventRecorder, func()) {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&events{ctx, c.core})
	return broadcaster.NewRecorder(c.scheme, corev1.EventSource{Component: component, Host: c.node}), broadcaster.Shutdown
}

// events is a record.EventSink. The package record passes no context, so the sink stores one.
type events struct {
	ctx    context.Context
	client rest.Interface
}

func (e *events) Create(event *corev1.Event) (*corev1.Event, error) {
	return e.do(e.client.Post(), event, func(r *rest.Request) *rest.Request { return r.Body(event) })
}

func (e *events) Update(event *corev1.Event) (*corev1.Event, error) {
	return e.do(e.client.Put(), event, func(r *rest.Request) *rest.Request { return r.Name(event.Name).Body(event) })
}

func (e *events) Patch(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	return e.do(e.client.Patch(types.StrategicMergePatchType), event, func(r *rest.Request) *rest.Request { return r.Name(event.Name).Body(patch) })
}

func (e *events) do(r *rest.Request, event *corev1.Event, with func(*rest.Request) *rest.Request) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(e.ctx, writeTimeout)
	defer cancel()
	answer := &corev1.Event{}
	err := with(r.Namespace(event.Namespace).Resource("events")).Do(ctx).Into(answer)
	return answer, err
}
