// SPDX-License-Identifier: Apache-2.0

package pullstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// Handler is called when an object was added, changed (then old is not nil) or deleted (then obj is nil). It must neither block nor go
// through all objects of a kind: the watch of nodes, of which there are many, waits for it. It gets the context of the watches.
type Handler func(ctx context.Context, obj, old client.Object)

// Watches fill a Store, except for the nodes, which Nodes receives from their reader. Create them with NewWatches.
type Watches struct {
	cache    cache.Cache
	handlers map[string][]Handler
	// Nodes receives the nodes of the cluster from their reader.
	Nodes *NodeStore
	// Pods are those that jobs follow.
	Pods *Pods
}

// The kinds of objects that a Handler can be registered for.
const (
	Nodes      = "nodes"
	NodeImages = "nodeimages"
	Jobs       = "imagepulljobs"
)

// NewWatches returns watches on a cluster, and the Store that they fill. They see nothing before Start.
func NewWatches(config *rest.Config) (*Watches, *Store, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		return nil, nil, fmt.Errorf("registering types: %w", err)
	}
	c, err := cache.New(config, cache.Options{
		Scheme: scheme, Mapper: mapper(), NewInformer: newInformer, DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("creating a cache: %w", err)
	}
	live, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper()})
	if err != nil {
		return nil, nil, fmt.Errorf("creating a client: %w", err)
	}
	protobuf := rest.CopyConfig(config)
	protobuf.AcceptContentTypes, protobuf.ContentType = runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON, runtime.ContentTypeProtobuf
	pods, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a client: %w", err)
	}
	w := &Watches{cache: c, handlers: map[string][]Handler{}, Nodes: NewNodeStore(), Pods: NewPods(pods)}
	return w, New(reader{c, w.Nodes}, live), nil
}

// newInformer makes informers that read from the store of the API server what client-go would take from its
// cache: a leader must not decide on data that is older than its election.
func newInformer(lister toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	from := toolscache.ToListerWatcherWithContext(lister)
	consistent := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.ResourceVersion == "0" {
				o.ResourceVersion = ""
			}
			return from.ListWithContext(ctx, o)
		},
		WatchFuncWithContext: from.WatchWithContext,
	}
	return toolscache.NewSharedIndexInformer(consistent, obj, resync, indexers)
}

// mapper knows the resources that are used here, so that no discovery is needed.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	m.Add(v1beta1.GroupVersion().WithKind(kruise.KindJob), meta.RESTScopeNamespace)
	m.Add(v1beta1.GroupVersion().WithKind(kruise.KindNodeImage), meta.RESTScopeRoot)
	return m
}

// Handle registers a handler for all objects of a kind; it must be called before Start.
func (w *Watches) Handle(kind string, h Handler) { w.handlers[kind] = append(w.handlers[kind], h) }

// Start begins to watch, and returns when all existing objects have been read. The watches end with ctx; then done is closed.
func (w *Watches) Start(ctx context.Context) (done <-chan struct{}, err error) {
	for kind, obj := range map[string]client.Object{NodeImages: &v1beta1.NodeImage{}, Jobs: &v1beta1.ImagePullJob{}} {
		if err := w.watch(ctx, kind, obj); err != nil {
			return nil, err
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.cache.Start(ctx) // it ends with ctx, and with nothing else
	}()
	if !w.cache.WaitForCacheSync(ctx) {
		<-ended
		return nil, fmt.Errorf("reading image pulls: %w", context.Cause(ctx))
	}
	// Only now: a handler of nodes may read the cache, and would block the watch of nodes until it has synced.
	if err := w.Nodes.Follow(ctx, func(now, before *corev1.Node) { w.nodeChanged(ctx, now, before) }); err != nil {
		<-ended
		return nil, fmt.Errorf("reading nodes: %w", err)
	}
	return ended, nil
}

func (w *Watches) nodeChanged(ctx context.Context, now, before *corev1.Node) {
	var obj, old client.Object // nil, and not a node that is nil
	if now != nil {
		obj = now
	}
	if before != nil {
		old = before
	}
	for _, handle := range w.handlers[Nodes] {
		handle(ctx, obj, old)
	}
}

func (w *Watches) watch(ctx context.Context, kind string, obj client.Object) error {
	informer, err := w.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching %s: %w", kind, err)
	}
	for _, h := range w.handlers[kind] {
		if _, err := informer.AddEventHandler(adapter(ctx, h)); err != nil {
			return fmt.Errorf("watching %s: %w", kind, err)
		}
	}
	return nil
}

// adapter hands the events of an informer to a Handler.
func adapter(ctx context.Context, handle Handler) toolscache.ResourceEventHandler {
	call := func(obj, old any) {
		now, _ := obj.(client.Object)
		before, _ := old.(client.Object)
		handle(ctx, now, before)
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { call(obj, nil) },
		UpdateFunc: func(old, obj any) { call(obj, old) },
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			call(nil, obj)
		},
	}
}
