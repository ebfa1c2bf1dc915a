// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache/informers"
)

// lookAgain is how often the store looks whether the CRDs exist.
const lookAgain = 10 * time.Second

// resource is one of the two that are watched.
type resource struct {
	name, kind string
	put        func(u *unstructured.Unstructured) error
	remove     func(name types.NamespacedName)
	// names are the names of the existing objects.
	names func() []types.NamespacedName
}

// Run watches policies and approvals, and writes statuses, until ctx ends.
func (s *Store) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, r := range s.resources() {
		wg.Go(func() { s.follow(ctx, &r) })
	}
	wg.Go(func() {
		for {
			name, stop := s.queue.Get()
			if stop {
				return
			}
			s.lanes.add(name)
			s.queue.Done(name)
		}
	})
	wg.Go(func() { s.lanes.run(func(name types.NamespacedName) (slow bool) { return s.work(ctx, name) }) })
	<-ctx.Done()
	s.queue.ShutDown()
	s.lanes.shutDown()
	wg.Wait()
}

func (s *Store) resources() []resource {
	return []resource{
		{v1alpha1.ResourcePolicies, v1alpha1.KindPolicy, s.putPolicy, s.remove, func() []types.NamespacedName {
			s.mu.Lock()
			defer s.mu.Unlock()
			return keys(s.policies)
		}},
		{v1alpha1.ResourceApprovals, v1alpha1.KindApproval, func(u *unstructured.Unstructured) error {
			a := &v1alpha1.RolloutApproval{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, a); err != nil {
				return fmt.Errorf("reading a RolloutApproval: %w", err)
			}
			s.putApproval(a)
			return nil
		}, s.removeApproval, func() []types.NamespacedName {
			s.mu.Lock()
			defer s.mu.Unlock()
			return keys(s.approvals)
		}},
	}
}

func keys[V any](m table[V]) []types.NamespacedName {
	var all []types.NamespacedName
	for name := range m.all() {
		all = append(all, name)
	}
	return all
}

// unknownFields is why a policy of a later version cannot be followed: a field of its specification that this version does not know may forbid what it would do.
// Empty if there is none.
func unknownFields(u *unstructured.Unstructured) string {
	spec := map[string]any{"spec": u.Object["spec"]}
	strict, found := runtime.AsStrictDecodingError(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(spec, &v1alpha1.RolloutPolicy{}, true))
	if !found {
		return ""
	}
	var fields []string
	for _, err := range strict.Errors() {
		fields = append(fields, err.Error())
	}
	return fmt.Sprintf("this version of the manager does not know all fields: %s; update the manager, or remove them", strings.Join(fields, ", "))
}

// putPolicy takes a policy. One that cannot be decoded, although the CRD accepts it, applies to its targets and cannot be followed.
func (s *Store) putPolicy(u *unstructured.Unstructured) error {
	p := &v1alpha1.RolloutPolicy{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p)
	if err == nil {
		s.put(p, unknownFields(u))
		return nil
	}
	bare, spec := u.DeepCopy(), map[string]any{}
	for _, field := range []string{"targets", "concurrencyGroup"} { // other sets of the group must wait for updates of its sets that have begun
		if value, has, _ := unstructured.NestedFieldCopy(u.Object, "spec", field); has {
			spec[field] = value
		}
	}
	bare.Object["spec"] = spec
	var decoding error
	for _, status := range []any{u.Object["status"], map[string]any{}} { // what the status remembers counts all the same
		bare.Object["status"] = status
		p = &v1alpha1.RolloutPolicy{}
		if decoding = runtime.DefaultUnstructuredConverter.FromUnstructured(bare.Object, p); decoding == nil {
			s.put(p, "spec: "+err.Error())
			return nil
		}
	}
	return fmt.Errorf("reading the RolloutPolicy %s/%s: %w", u.GetNamespace(), u.GetName(), decoding)
}

// exists reports whether the API server serves a resource.
func (s *Store) exists(r *resource) (bool, error) {
	list, err := s.Discovery.ServerResourcesForGroupVersion(v1alpha1.GroupVersion().String())
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("checking for the CRD of %s: %w", r.name, err)
	default:
		return slices.ContainsFunc(list.APIResources, func(a metav1.APIResource) bool { return a.Name == r.name }), nil
	}
}

// follow watches a resource while its CRD exists.
func (s *Store) follow(ctx context.Context, r *resource) {
	var stop context.CancelFunc
	var watching sync.WaitGroup
	defer watching.Wait()
	for pause := time.Duration(0); s.wait(ctx, pause) == nil; {
		there, err := s.exists(r)
		pause = lookAgain
		switch {
		case err != nil:
			klog.FromContext(ctx).Error(err, "Could not determine whether rollout policies exist; retrying")
			pause = time.Second
		case there && stop == nil:
			var watchCtx context.Context
			watchCtx, stop = context.WithCancel(ctx)
			watching.Go(func() { s.reflect(watchCtx, r) })
		case !there:
			if stop != nil {
				stop()
				watching.Wait()
				stop = nil
			}
			for _, name := range r.names() {
				r.remove(name)
			}
			s.setKnown(r.name)
		}
	}
	if stop != nil {
		stop()
	}
}

// wait returns an error when ctx has ended.
func (s *Store) wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := s.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		return nil
	}
}

// reflect watches a resource. Its first list is a consistent read, so that a new leader knows of every policy that was written before.
func (s *Store) reflect(ctx context.Context, r *resource) {
	client := s.Client.Resource(v1alpha1.GroupVersion().WithResource(r.name))
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.ResourceVersion == "0" {
				o.ResourceVersion = ""
			}
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return client.Watch(ctx, o) },
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(r.kind))
	cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lister, s.Client), object, &sink{s, r}, cache.ReflectorOptions{Name: r.name, Backoff: informers.RetryInterval()}).RunWithContext(ctx)
}

// sink hands what a reflector reads to the store.
type sink struct {
	s *Store
	r *resource
}

var errKind = errors.New("an object of another kind came from the watch")

// Add implements cache.ReflectorStore.
func (k *sink) Add(obj any) error { return k.Update(obj) }

// Update implements cache.ReflectorStore.
func (k *sink) Update(obj any) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return errKind
	}
	return k.r.put(u)
}

// Delete implements cache.ReflectorStore.
func (k *sink) Delete(obj any) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return errKind
	}
	k.r.remove(types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()})
	return nil
}

// Replace implements cache.ReflectorStore.
func (k *sink) Replace(list []any, _ string) error {
	listed := map[types.NamespacedName]bool{}
	k.s.forgetAccepted()
	for _, obj := range list {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return errKind
		}
		listed[types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}] = true
		if err := k.r.put(u); err != nil {
			return err
		}
	}
	for _, name := range k.r.names() {
		if !listed[name] {
			k.r.remove(name)
		}
	}
	k.s.setKnown(k.r.name)
	return nil
}

// Resync implements cache.ReflectorStore; there is nothing to do.
func (k *sink) Resync() error { return nil }
