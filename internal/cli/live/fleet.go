// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/clustercache/informers"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// Kind is a kind of sets to observe. InPlace may be nil.
type Kind struct {
	Source  dialect.Source
	InPlace InPlaceFunc
}

// FleetOptions define what WatchAll observes.
type FleetOptions struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Kinds   []Kind
	// Namespace is the namespace of the sets, pods and ControllerRevisions; empty means all namespaces.
	Namespace string
	Facts     dialect.FactsFunc
	// Changed, if not nil, is called when something relevant to a set has changed. It must not wait.
	Changed func(key clustercache.Key)
	// Turned, if not nil, is called when a connection was lost or is there again: Lost has changed. It must not wait.
	Turned func()
}

// Fleet is all observed DaemonSets.
type Fleet struct {
	index *clustercache.Index
	feed  *informers.Feed
	kinds []Kind

	mu     sync.Mutex
	memory map[clustercache.Key]rollout.Memory
	lost   map[string]error // errors by resource that cannot be watched
	turned func()
}

// WatchAll starts to observe, and returns when the initial lists are complete. It runs until ctx ends; use Wait to wait for that.
func WatchAll(ctx context.Context, o FleetOptions) (*Fleet, error) {
	f := &Fleet{kinds: o.Kinds, turned: o.Turned, memory: map[clustercache.Key]rollout.Memory{}, lost: map[string]error{}}
	f.index = clustercache.NewIndex(func(key clustercache.Key) {
		if o.Changed != nil {
			o.Changed(key)
		}
	})
	f.index.ReadFacts(o.Facts)
	f.feed = &informers.Feed{Index: f.index, Client: o.Client, Dynamic: o.Dynamic, Namespace: o.Namespace, Report: f.recordListError}
	for _, kind := range o.Kinds {
		f.feed.Sources = append(f.feed.Sources, kind.Source)
	}
	if err := f.feed.Start(ctx); err != nil {
		return nil, fmt.Errorf("starting to watch: %w", err)
	}
	return f, nil
}

// Wait returns when the watches have ended.
func (f *Fleet) Wait() { f.feed.Wait() }

// Keys returns the keys of all sets, by namespace and name.
func (f *Fleet) Keys() []clustercache.Key {
	var keys []clustercache.Key
	for _, kind := range f.kinds {
		keys = append(keys, f.index.Keys(kind.Source.Dialect)...)
	}
	slices.SortFunc(keys, func(a, b clustercache.Key) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Dialect, b.Dialect))
	})
	return keys
}

// WorkloadOf returns the latest state of a set, or nil if it does not exist.
func (f *Fleet) WorkloadOf(key clustercache.Key) *dialect.Workload { return f.index.Workload(key) }

// Govern records that a rollout policy may hold nodes of a set: then the previous revision of a node matters.
func (f *Fleet) Govern(key clustercache.Key) { f.index.Govern(key, true) }

// Evaluate returns what is known about a set at now, without a decision; ok is false if the set does not exist.
func (f *Fleet) Evaluate(key clustercache.Key, now rollout.Time) (View, bool) {
	return evaluate(f.index, key, f.inPlace(key), now)
}

// Decide returns a set at now, and its decision. govern may be nil. ok is false if the set does not exist. Do not call it concurrently for one set.
func (f *Fleet) Decide(key clustercache.Key, now rollout.Time, govern GovernFunc) (View, rollout.Plan, bool) {
	f.index.Govern(key, govern != nil)
	view, ok := f.Evaluate(key, now)
	if !ok {
		f.remember(key, rollout.Memory{}, false)
		return View{}, rollout.Plan{}, false
	}
	f.mu.Lock()
	view.Snapshot.Memory = f.memory[key]
	f.mu.Unlock()
	if govern != nil {
		govern(&view)
	}
	plan := Decide(view.Workload, view.Snapshot)
	f.remember(key, plan.Memory, true)
	return view, plan, true
}

func (f *Fleet) remember(key clustercache.Key, memory rollout.Memory, exists bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if exists {
		f.memory[key] = memory
	} else {
		delete(f.memory, key)
	}
}

func (f *Fleet) inPlace(key clustercache.Key) InPlaceFunc {
	for _, kind := range f.kinds {
		if kind.Source.Dialect == key.Dialect {
			return kind.InPlace
		}
	}
	return nil
}

// recordListError records the result of a list or watch of a resource.
func (f *Fleet) recordListError(resource string, err error) {
	f.mu.Lock()
	_, was := f.lost[resource]
	is := neverWorked(err)
	if is {
		f.lost[resource] = err
	} else {
		delete(f.lost, resource)
	}
	f.mu.Unlock()
	if was != is && f.turned != nil {
		f.turned()
	}
}

// neverWorked reports whether err means that the API server cannot be watched. An expired version is not such an error,
// nor is a cancelled request.
func neverWorked(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code := status.Status().Code
		return code >= http.StatusInternalServerError || code == http.StatusUnauthorized || code == http.StatusForbidden
	}
	return err != nil && !errors.Is(err, context.Canceled)
}

// Lost returns why the data may be outdated, or nil.
func (f *Fleet) Lost() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	resources := slices.Sorted(maps.Keys(f.lost))
	if len(resources) == 0 {
		return nil
	}
	return f.lost[resources[0]]
}
