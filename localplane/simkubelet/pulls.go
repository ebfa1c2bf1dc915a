// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent"
)

// lookForPulls is how often a plane without NodeImages is checked for their CRD.
const lookForPulls = time.Second

// pulls are the agents of all simulated nodes.
type pulls struct {
	kubelet *Kubelet
	client  dynamic.NamespaceableResourceInterface
	images  cache.SharedIndexInformer
	queue   workqueue.TypedRateLimitingInterface[string]

	mu     sync.Mutex
	agents map[string]*nodeAgent
}

// nodeAgent is the agent of one node. The queue gives each node to one worker at a time, so it needs no lock.
type nodeAgent struct {
	*Agent
	uid types.UID
	// identity is used for its writes.
	identity Identity
	// written is the resource version of its last write: older versions are ignored.
	written string
}

func newPulls(k *Kubelet, client dynamic.Interface) *pulls {
	resource := v1beta1.GroupVersion().WithResource(kruise.ResourceNodeImage)
	return &pulls{
		kubelet: k, client: client.Resource(resource), agents: map[string]*nodeAgent{},
		images: dynamicinformer.NewFilteredDynamicInformer(client, resource, "", 0, cache.Indexers{}, nil).Informer(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 10*time.Second),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "simagent", Clock: k.Clock}),
	}
}

// run simulates until ctx ends, when the plane has the CRD of NodeImages.
func (p *pulls) run(ctx context.Context, workers int) {
	defer p.queue.ShutDown()
	err := wait.PollUntilContextCancel(ctx, lookForPulls, true, func(ctx context.Context) (bool, error) {
		_, err := p.client.List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil, nil
	})
	if err != nil {
		return
	}
	if err := p.watch(); err != nil {
		p.kubelet.Log.Error("watching what nodes pull", "err", err)
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { p.images.RunWithContext(ctx) })
	for range workers {
		wg.Go(func() { p.work(ctx) })
	}
	<-ctx.Done()
	p.queue.ShutDown()
}

func (p *pulls) watch() error {
	enqueue := func(obj any) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			p.queue.Add(name)
		}
	}
	_, err := p.images.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }, DeleteFunc: enqueue,
	})
	return err
}

func (p *pulls) work(ctx context.Context) {
	for {
		name, shutdown := p.queue.Get()
		if shutdown {
			return
		}
		err := p.sync(ctx, name)
		switch {
		case err == nil:
			p.queue.Forget(name)
		case ctx.Err() == nil:
			p.kubelet.Log.Warn("simulating an agent", "node", name, "err", err)
			p.queue.AddRateLimited(name)
		}
		p.queue.Done(name)
	}
}

// sync makes a step of the agent of one node. Nothing happens on a node that is cut off or deleted.
func (p *pulls) sync(ctx context.Context, name string) error {
	image, err := p.image(name)
	node := p.kubelet.node(name)
	if err != nil || image == nil || node == nil {
		p.mu.Lock()
		delete(p.agents, name)
		p.mu.Unlock()
		return err
	}
	if !Connected(node) {
		return nil
	}
	a := p.agent(image)
	if order, err := resourceversion.CompareResourceVersion(image.ResourceVersion, a.written); a.written != "" && err == nil && order < 0 {
		return nil // the watch will send the new version
	}
	ns := p.kubelet.nodeState(node)
	ns.mu.Lock()
	status, wake := a.Step(AgentInput{Now: p.kubelet.Clock.Now(), Image: image, Store: ns.images, Profile: p.kubelet.Profile})
	ns.mu.Unlock()
	if !wake.IsZero() {
		p.queue.AddAfter(name, max(wake.Sub(p.kubelet.Clock.Now()), time.Millisecond))
	}
	patch, err := agent.PatchOf(image.UID, &image.Status, status)
	if err != nil || patch == nil {
		return err
	}
	if a.identity, err = p.kubelet.Agents.Identify(ctx, a.identity, node, p.kubelet.Clock.Now()); err != nil {
		return err
	}
	return p.write(ctx, name, a, patch)
}

// image returns the NodeImage of that name, or nil.
func (p *pulls) image(name string) (*v1beta1.NodeImage, error) {
	obj, exists, err := p.images.GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil, err
	}
	image := &v1beta1.NodeImage{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.(*unstructured.Unstructured).Object, image); err != nil {
		return nil, fmt.Errorf("reading the node image: %w", err)
	}
	return image, nil
}

func (p *pulls) agent(image *v1beta1.NodeImage) *nodeAgent {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.agents[image.Name]
	if a == nil || a.uid != image.UID {
		a = &nodeAgent{Agent: NewAgent(&image.Status), uid: image.UID}
		p.agents[image.Name] = a
	}
	return a
}

func (p *pulls) write(ctx context.Context, name string, a *nodeAgent, patch []byte) error {
	after, err := p.kubelet.Agents.WriteStatus(ctx, a.identity, name, patch)
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return nil // deleted or recreated: the watch will send the event
	case apierrors.IsUnauthorized(err):
		a.identity = Identity{} // the next attempt requests another token
		return fmt.Errorf("writing the status of the node image: %w", err)
	case err != nil:
		return fmt.Errorf("writing the status of the node image: %w", err)
	}
	a.written = after.GetResourceVersion()
	return nil
}
