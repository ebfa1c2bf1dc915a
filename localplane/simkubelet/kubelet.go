// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// ConnectedLabel is on every simulated node that is connected. Removing it cuts the node off.
const ConnectedLabel = "localplane.everynode.dev/connected"

// Connected reports whether the node is connected.
func Connected(node *v1.Node) bool { return node.Labels[ConnectedLabel] == "true" }

// podNetwork is the network of the pods' addresses; it is not routed.
var podNetwork = netip.MustParsePrefix("10.128.0.0/9") //nolint:gochecknoglobals // a constant that Go cannot declare as one

const byNode = "spec.nodeName"

// Options are the options of a Kubelet.
type Options struct {
	Client kubernetes.Interface
	// Dynamic watches NodeImages, and Agents writes them; without both, nodes do not handle NodeImages.
	Dynamic dynamic.Interface
	Agents  *Agents
	Profile Profile
	Clock   clock.WithTicker
	Log     *slog.Logger
	// Workers is the number of workers for pods.
	Workers int
	// API are the options for the APIs of nodes; nil serves none.
	API *APIOptions
}

// Kubelet is the kubelet of all connected nodes of a plane.
type Kubelet struct {
	Options
	pods  cache.SharedIndexInformer
	nodes cache.SharedIndexInformer
	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]

	addresses *addresses
	pulls     *pulls // nil without Dynamic and Agents
	apis      *apis  // nil without API

	// mu guards the maps, not their values.
	mu         sync.Mutex
	nodeStates map[string]*nodeState
	podStates  map[cache.ObjectName]*podState
}

// New returns a kubelet. Run runs it.
func New(o Options) (*Kubelet, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(o.Client, 0, informers.WithTransform(dropManagedFields))
	k := &Kubelet{
		Options: o,
		pods:    factory.Core().V1().Pods().Informer(),
		nodes:   factory.Core().V1().Nodes().Informer(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](50*time.Millisecond, 10*time.Second),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "simkubelet", Clock: o.Clock},
		),
		addresses:  newAddresses(podNetwork),
		nodeStates: map[string]*nodeState{},
		podStates:  map[cache.ObjectName]*podState{},
	}
	err := k.pods.AddIndexers(cache.Indexers{byNode: func(obj any) ([]string, error) {
		return []string{obj.(*v1.Pod).Spec.NodeName}, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("indexing pods by node: %w", err)
	}
	if o.Dynamic != nil && o.Agents != nil {
		k.pulls = newPulls(k, o.Dynamic)
	}
	if err := k.addHandlers(); err != nil {
		return nil, err
	}
	if o.API == nil {
		return k, nil
	}
	k.apis, err = newAPIs(k, *o.API)
	return k, err
}

// dropManagedFields removes a field that is not used here, to save memory.
func dropManagedFields(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

func (k *Kubelet) addHandlers() error {
	_, podErr := k.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    k.enqueue,
		UpdateFunc: func(_, obj any) { k.enqueue(obj) },
		DeleteFunc: k.enqueue,
	})
	_, nodeErr := k.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { k.enqueueNode(obj.(*v1.Node)) },
		UpdateFunc: func(old, obj any) {
			before, after := old.(*v1.Node), obj.(*v1.Node)
			if Connected(before) != Connected(after) || nodeReady(before) != nodeReady(after) {
				k.enqueueNode(after)
			}
		},
		DeleteFunc: k.forgetNode,
	})
	if err := errors.Join(podErr, nodeErr); err != nil {
		return fmt.Errorf("watching pods and nodes: %w", err)
	}
	return nil
}

// Run simulates until ctx ends. It calls ready when it has read all pods and nodes.
func (k *Kubelet) Run(ctx context.Context, ready func()) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer k.queue.ShutDown()
	wg.Go(func() { k.nodes.RunWithContext(ctx) })
	wg.Go(func() { k.pods.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), k.nodes.HasSynced, k.pods.HasSynced) {
		return fmt.Errorf("listing pods and nodes: %w", context.Cause(ctx))
	}
	// The addresses of existing pods are reserved before a new pod gets one.
	for _, obj := range k.pods.GetStore().List() {
		if pod := obj.(*v1.Pod); !pod.Spec.HostNetwork {
			k.addresses.claim(pod.Status.PodIP)
		}
	}
	for range k.Workers {
		wg.Go(func() { k.work(ctx) })
	}
	wg.Go(func() { k.reportImages(ctx) })
	if k.pulls != nil {
		wg.Go(func() { k.pulls.run(ctx, k.Workers) })
	}
	if k.apis != nil {
		wg.Go(func() { k.apis.run(ctx) })
	}
	ready()
	<-ctx.Done()
	return nil
}

func (k *Kubelet) enqueue(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if pod, ok := obj.(*v1.Pod); ok && pod.Spec.NodeName != "" {
		k.queue.Add(cache.MetaObjectToName(pod))
	}
}

func (k *Kubelet) enqueueNode(node *v1.Node) {
	if k.pulls != nil {
		k.pulls.queue.Add(node.Name)
	}
	pods, err := k.pods.GetIndexer().ByIndex(byNode, node.Name)
	if err != nil {
		k.Log.Error("looking up the pods of a node", "node", node.Name, "err", err)
		return
	}
	for _, obj := range pods {
		k.enqueue(obj)
	}
}

func (k *Kubelet) work(ctx context.Context) {
	for {
		name, shutdown := k.queue.Get()
		if shutdown {
			return
		}
		err := k.sync(ctx, name)
		switch {
		case err == nil:
			k.queue.Forget(name)
		case ctx.Err() == nil:
			k.Log.Warn("simulating a pod", "pod", name.String(), "err", err)
			k.queue.AddRateLimited(name)
		}
		k.queue.Done(name)
	}
}
