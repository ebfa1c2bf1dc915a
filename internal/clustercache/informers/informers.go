// SPDX-License-Identifier: Apache-2.0

// Package informers fills a clustercache.Index from a cluster: it watches nodes, pods, ControllerRevisions and the daemon sets of the
// dialects, and hands each event straight to the index. No object is kept, except the templates of sets: while the list of all pods or
// nodes is streamed, it is held as records.
//
// Only the leader starts a Feed, after it was elected: each watch begins with
// a consistent read, and Run also reads the current resourceVersion of every resource before it starts and reports
// itself synced only when every watch has reached it. So a new leader never decides on a view that is older than its election.
package informers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
)

// Feed fills Index. All fields are required, except that Sources may be empty, and Nodes and Pods nil.
type Feed struct {
	Index   *clustercache.Index
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Pods reads pods with a decoder that skips unneeded fields (NewPods); if nil, Client reads them.
	Pods    typedcorev1.PodsGetter
	Sources []dialect.Source
	// Nodes, if not nil, receives the same nodes as the index.
	Nodes NodeStore
	// Namespace is where pods, ControllerRevisions and sets are watched; empty for all namespaces.
	Namespace string
	// Restored, if not nil, is called when the storage of the API server turns out to have gone back to an earlier moment, as after a restore of etcd from a
	// backup: the state that the index holds may never have existed then. Its arguments are a resource, or one object of it, with the version that was seen
	// earlier and the present one. It is called from several goroutines, and may be called more than once.
	Restored func(resource, seen, has string)
	// Report, if not nil, is called with the result of opening a watch of a resource; after a list only when it fails, as a watch follows. It is called from
	// several goroutines.
	Report func(resource string, err error)

	// Late, if not nil, is called when Start does not wait any longer for the sets of an optional dialect, and once more when they have been read. It is
	// called from several goroutines.
	Late func(dialect string, late bool)

	mu   sync.Mutex // held by Start
	stop context.CancelFunc
	wg   sync.WaitGroup
	// streams are those that were started last; nil before.
	streams atomic.Pointer[[]*stream]
}

// errRestored is returned by a Start that detects that the storage was restored.
var errRestored = errors.New("the storage of the API server was restored from an earlier moment")

// stream is one reflector and the store that it fills.
type stream struct {
	name   string
	store  *store
	lister cache.ListerWatcher
	object runtime.Object
	floor  string // the resourceVersion that the store must reach before the stream counts as synced
	// optional is the dialect of an optional source; empty for a required one. late reports whether Start could not read its floor.
	optional string
	late     bool
}

// Start begins to watch and returns when the index has reached, for every resource, the version that it had when Start was
// called. The watches end with ctx; Wait waits for that. A second call starts new watches: the old watches go on until the current versions
// are known, and what the index has stays until the new lists replace it. A resource whose version is older then than one that was seen before shows that the
// storage was restored. It waits for an optional source no longer than patience, and continues without it.
func (f *Feed) Start(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	streams := f.makeStreams()
	for _, s := range streams {
		if err := f.readFloor(ctx, s); err != nil {
			return fmt.Errorf("reading the current version of %s: %w", s.name, err)
		}
	}
	if f.stop != nil {
		f.stop()
		f.wg.Wait()
	}
	for _, s := range streams {
		s.store.before = f.seen(s.name) // without it a restore shortly before this Start would go unnoticed
	}
	f.streams.Store(&streams)
	watching, stop := context.WithCancel(ctx)
	f.stop = stop
	f.watchVersions(watching, streams)
	for _, s := range streams {
		f.wg.Go(func() { s.run(watching) })
	}
	return f.await(ctx, watching, streams)
}

const (
	// patience is how long Start waits for an optional source.
	patience = 10 * time.Second
	// tryAgain is the interval between attempts to read a late source.
	tryAgain = 5 * time.Second
)

// run watches until ctx ends; where Start could not read what the stream must reach, as soon as that can be read.
func (s *stream) run(ctx context.Context) {
	if s.late {
		_ = wait.PollUntilContextCancel(ctx, tryAgain, false, func(ctx context.Context) (bool, error) {
			list, err := cache.ToListerWatcherWithContext(s.lister).ListWithContext(ctx, metav1.ListOptions{Limit: 1})
			if err != nil {
				return false, nil // Start has logged it
			}
			meta, err := metaOf(list)
			if err == nil {
				s.floor = meta.GetResourceVersion()
			}
			return err == nil, nil
		})
	}
	if ctx.Err() == nil {
		options := cache.ReflectorOptions{Name: "clustercache/" + s.name, Backoff: RetryInterval()}
		cache.NewReflectorWithOptions(s.lister, s.object, s.store, options).RunWithContext(ctx)
	}
}

// RetryInterval returns how long a watch waits before it tries again to reach an API server that gives no answer: 0.8 s at first, and at most 10 s. client-go would
// wait for up to a minute, and until then decisions count pods as they were before the outage. Only a few watches of two managers try that often.
func RetryInterval() *wait.Backoff {
	return &wait.Backoff{Duration: 800 * time.Millisecond, Cap: 5 * time.Second, Factor: 2, Jitter: 1, Steps: 7}
}

// readFloor reads the version that a stream must reach. An optional one that cannot be read in time is late.
func (f *Feed) readFloor(ctx context.Context, s *stream) error {
	seen, bounded, cancel := f.seen(s.name), ctx, context.CancelFunc(func() {})
	if s.optional != "" {
		bounded, cancel = context.WithTimeout(ctx, patience)
	}
	defer cancel()
	floor, err := s.currentVersion(bounded)
	switch {
	case err != nil && s.optional != "" && ctx.Err() == nil:
		klog.FromContext(ctx).Error(err, "Could not read the daemon sets of a dialect in time", "dialect", s.optional, "resource", s.name)
		s.late = true
		return nil
	case err != nil:
		return err
	case f.Restored != nil && isOlder(floor, seen):
		f.Restored(s.name, seen, floor)
		return errRestored
	}
	s.floor = floor
	return nil
}

// await waits for streams, and not long for optional ones: those that are late then are waited for until watching ends.
func (f *Feed) await(ctx, watching context.Context, streams []*stream) error {
	var optional []*stream
	for _, s := range streams {
		if s.optional != "" {
			optional = append(optional, s)
		} else if err := s.await(ctx); err != nil {
			return err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, s := range optional {
		if !s.late && s.await(bounded) == nil {
			f.setLate(s.optional, false)
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		klog.FromContext(ctx).Error(nil, "Continuing without the daemon sets of a dialect, which could not be read in time; they are served as soon as they have been read", "dialect", s.optional, "resource", s.name)
		f.setLate(s.optional, true)
		f.wg.Go(func() {
			if s.await(watching) == nil {
				klog.FromContext(ctx).Info("Read the daemon sets of a dialect", "dialect", s.optional, "resource", s.name)
				f.setLate(s.optional, false)
			}
		})
	}
	return nil
}

func (f *Feed) setLate(dialectName string, late bool) {
	if f.Late != nil {
		f.Late(dialectName, late)
	}
}

func (s *stream) await(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) { return s.reached(), nil })
}

// Await waits until the sets of an optional dialect have been read since Start was called last.
func (f *Feed) Await(ctx context.Context, dialectName string) error {
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		for _, s := range f.running() {
			if s.optional == dialectName && !s.reached() {
				return false, nil
			}
		}
		return true, nil
	})
}

// seen is the newest version that was seen of the resource of that stream; empty for none. It is read before the read with which it is compared: the watch
// continues in the meantime.
func (f *Feed) seen(name string) string {
	for _, s := range f.running() {
		if s.name == name {
			return s.store.seen()
		}
	}
	return ""
}

// running are the streams that were started last.
func (f *Feed) running() []*stream {
	if streams := f.streams.Load(); streams != nil {
		return *streams
	}
	return nil
}

// lookAtVersions is how often a feed looks whether the storage has gone back.
const lookAtVersions = 10 * time.Second

// watchVersions has Restored called when a list is older than what was seen, or when a read shows that no list could be newer.
func (f *Feed) watchVersions(ctx context.Context, streams []*stream) {
	if f.Restored == nil {
		return
	}
	for _, s := range streams {
		s.store.older = func(object, seen, has string) { f.Restored(strings.TrimSpace(s.name+" "+object), seen, has) }
	}
	nodes := streams[0]
	f.wg.Go(func() {
		_ = wait.PollUntilContextCancel(ctx, lookAtVersions, false, func(ctx context.Context) (bool, error) {
			seen := nodes.store.seen()
			list, err := cache.ToListerWatcherWithContext(nodes.lister).ListWithContext(ctx, metav1.ListOptions{Limit: 1})
			if err != nil {
				return false, nil // it is asked again
			}
			if meta, err := metaOf(list); err == nil && isOlder(meta.GetResourceVersion(), seen) {
				f.Restored(nodes.name, seen, meta.GetResourceVersion())
			}
			return false, nil
		})
	})
}

// Wait returns when all watches have ended; the ctx of Start must have ended before.
func (f *Feed) Wait() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wg.Wait()
}

// currentVersion is a quorum read of one item: the answer carries the version of the whole resource at that moment.
func (s *stream) currentVersion(ctx context.Context) (string, error) {
	var list runtime.Object
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		var err error
		if list, err = cache.ToListerWatcherWithContext(s.lister).ListWithContext(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			klog.FromContext(ctx).Error(err, "Could not read the cluster; trying again", "resource", s.name)
		}
		return err == nil, retryable(err)
	})
	if err != nil {
		return "", err
	}
	meta, err := metaOf(list)
	if err != nil {
		return "", err
	}
	return meta.GetResourceVersion(), nil
}

func (s *stream) reached() bool {
	have := s.store.version()
	if have == "" {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(have, s.floor)
	return err != nil || c >= 0
}

func (f *Feed) makeStreams() []*stream {
	x, pods, nodes := f.Index, newPodSink(f.Index), nodeSink{f.Index, f.Nodes}
	podsGetter := f.Pods
	if podsGetter == nil {
		podsGetter = f.Client.CoreV1()
	}
	streams := []*stream{
		{
			name: "nodes", object: &corev1.Node{},
			lister: f.reporting("nodes", f.Client, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return f.Client.CoreV1().Nodes().List(ctx, o)
			}, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return f.Client.CoreV1().Nodes().Watch(ctx, o)
			}),
			store: newStore(nodes.record, nodes),
		},
		{
			name: "pods", object: &corev1.Pod{},
			lister: f.reporting("pods", f.Client, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return podsGetter.Pods(f.Namespace).List(ctx, o)
			}, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return podsGetter.Pods(f.Namespace).Watch(ctx, o)
			}),
			store: newStore(pods.record, pods),
		},
		{
			name: "controllerrevisions", object: &appsv1.ControllerRevision{},
			lister: f.reporting("controllerrevisions", f.Client, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return f.Client.AppsV1().ControllerRevisions(f.Namespace).List(ctx, o)
			}, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return f.Client.AppsV1().ControllerRevisions(f.Namespace).Watch(ctx, o)
			}),
			store: newStore(nil, revisionSink{x}),
		},
	}
	for _, src := range f.Sources {
		resource := f.Dynamic.Resource(src.Resource).Namespace(f.Namespace)
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(src.Resource.GroupVersion().WithKind(src.Kind))
		name, optional := src.Resource.GroupResource().String(), ""
		if src.Optional {
			optional = src.Dialect
		}
		streams = append(streams, &stream{
			name: name, object: object, optional: optional,
			lister: f.reporting(name, f.Dynamic, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return resource.List(ctx, o)
			}, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return resource.Watch(ctx, o)
			}),
			store: newStore(nil, setSink{index: x, source: src}),
		})
	}
	return streams
}

// reporting is like listWatch, and also calls Report.
func (f *Feed) reporting(resource string, client any, list cache.ListWithContextFunc, open cache.WatchFuncWithContext) cache.ListerWatcher {
	if f.Report == nil {
		return listWatch(client, list, open)
	}
	return listWatch(client, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		answer, err := list(ctx, o)
		if err != nil {
			f.Report(resource, err)
		}
		return answer, err
	}, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		opened, err := open(ctx, o)
		f.Report(resource, err)
		return opened, err
	})
}

// listWatch reads what client-go would take from the API server's cache from the store itself: what the index has already must
// not go back in time.
func listWatch(client any, list cache.ListWithContextFunc, watch cache.WatchFuncWithContext) cache.ListerWatcher {
	consistent := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		if o.ResourceVersion == "0" {
			o.ResourceVersion = ""
		}
		return list(ctx, o)
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{ListWithContextFunc: consistent, WatchFuncWithContext: watch}, client)
}
