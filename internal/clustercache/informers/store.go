// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"cmp"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	appsv1 "k8s.io/api/apps/v1"
	apimeta "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// sink takes the events of one resource.
type sink interface {
	put(obj any)
	remove(obj any)
	// replace returns an object that has gone back to an older version, and does not take the list then; called once more, it takes it.
	replace(list []any, rv string) *clustercache.Reverted
	seen(rv string)
}

// store is the store of a reflector: it keeps nothing but the newest version, and hands every event to its sink.
type store struct {
	sink sink
	// record converts an object into the record that its sink takes; if nil, the sink takes the object itself.
	record cache.TransformFunc

	// older, if not nil, is called in place of taking a list that shows that the storage of the API server was restored from an earlier moment. Either the
	// list is older than what the store has seen. Every list is a consistent read, or at least as new as the last one, so there is no other reason. Or an
	// object, which is named then, is older in the list than it was seen before.
	older func(object, seen, listed string)

	// before is the newest version that the store before this one had taken, of an earlier Start; empty for none. It is set before the store is used.
	before string

	mu sync.Mutex
	rv string
}

var (
	_ cache.TransformingStore      = (*store)(nil)
	_ cache.ReflectorBookmarkStore = (*store)(nil)
)

func newStore(record cache.TransformFunc, s sink) *store { return &store{sink: s, record: record} }

// Transformer implements cache.TransformingStore: while a list is streamed it is held as records, and not as objects.
func (s *store) Transformer() cache.TransformFunc { return s.record }

// Add implements cache.ReflectorStore.
func (s *store) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *store) Update(obj any) error {
	s.sink.put(obj)
	return s.advance(obj)
}

// Delete implements cache.ReflectorStore.
func (s *store) Delete(obj any) error {
	s.sink.remove(obj)
	return s.advance(obj)
}

// Replace implements cache.ReflectorStore.
func (s *store) Replace(list []any, rv string) error {
	if seen := s.seen(); s.older != nil && isOlder(rv, seen) {
		s.older("", seen, rv)
		return nil
	}
	if back := s.sink.replace(list, rv); back != nil {
		if s.older != nil {
			s.older(back.Name, back.Seen, back.Has)
			return nil
		}
		s.sink.replace(list, rv)
	}
	s.setVersion(rv)
	return nil
}

// isOlder reports whether one resourceVersion is older than another; not where they cannot be compared.
func isOlder(rv, than string) bool {
	c, err := resourceversion.CompareResourceVersion(rv, than)
	return err == nil && c < 0
}

// Resync implements cache.ReflectorStore; there is nothing to do.
func (s *store) Resync() error { return nil }

// Bookmark implements cache.ReflectorBookmarkStore.
func (s *store) Bookmark(rv string) error {
	s.sink.seen(rv)
	s.setVersion(rv)
	return nil
}

func (s *store) advance(obj any) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("reading the version of an object from the watch: %w", err)
	}
	s.setVersion(m.GetResourceVersion())
	return nil
}

func (s *store) setVersion(rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv = rv
}

// version is the newest resourceVersion that the store has taken; empty before the first list.
func (s *store) version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rv
}

// seen is the newest resourceVersion of the resource that this store or its predecessor has seen.
func (s *store) seen() string { return cmp.Or(s.version(), s.before) }

func metaOf(list runtime.Object) (metav1.ListInterface, error) { return meta.ListAccessor(list) }

// retryable keeps polling on errors that may pass; what the server refuses for good is returned.
func retryable(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

type revisionSink struct{ x *clustercache.Index }

// RevisionFrom reads a clustercache.Revision out of an object; ok is false for one that no daemon set can own.
func RevisionFrom(r *appsv1.ControllerRevision) (rec clustercache.Revision, ok bool) {
	owner, advanced, ok := clustercache.OwnerOf(r)
	if !ok {
		return clustercache.Revision{}, false
	}
	rec = clustercache.Revision{
		Namespace: r.Namespace, Name: r.Name, UID: r.UID, RV: r.ResourceVersion, Labels: r.Labels,
		Number: r.Revision, Deleting: r.DeletionTimestamp != nil, Data: r.Data.Raw,
		Committed: everynode.ParseCommitted(r.Annotations[everynode.Committed], string(r.UID)),
		Failed:    everynode.ParseFailed(r.Annotations[everynode.Failed], string(r.UID)),
		Durations: everynode.ParseDurations(r.Annotations[everynode.MeasuredDurations]),
	}
	rec.Owner, rec.Advanced = owner, advanced
	if !r.CreationTimestamp.IsZero() {
		rec.Created = rollout.Time(r.CreationTimestamp.UnixNano())
	}
	if rec.Hash, rec.Labelled = r.Labels[appsv1.ControllerRevisionHashLabelKey], true; rec.Hash == "" {
		rec.Hash, rec.Labelled = r.Name, false
	}
	return rec, true
}

func (s revisionSink) put(obj any) {
	r, ok := obj.(*appsv1.ControllerRevision)
	if !ok {
		return
	}
	if rec, ours := RevisionFrom(r); ours {
		s.x.PutRevision(rec)
	} else {
		s.x.DropRevision(r.UID)
	}
}

func (s revisionSink) remove(obj any) {
	if r, ok := obj.(*appsv1.ControllerRevision); ok {
		s.x.DropRevision(r.UID)
		s.x.RevisionsSeen(r.ResourceVersion)
	}
}

func (s revisionSink) replace(list []any, rv string) *clustercache.Reverted {
	revisions := make([]clustercache.Revision, 0, len(list))
	for _, obj := range list {
		if r, ok := obj.(*appsv1.ControllerRevision); ok {
			if rec, ours := RevisionFrom(r); ours {
				revisions = append(revisions, rec)
			}
		}
	}
	return s.x.ReplaceRevisions(revisions, rv)
}

func (s revisionSink) seen(rv string) { s.x.RevisionsSeen(rv) }

type setSink struct {
	index  *clustercache.Index
	source dialect.Source
}

func (s setSink) key(u *apimeta.Unstructured) (clustercache.Key, bool) {
	key := clustercache.Key{Dialect: s.source.Dialect, Namespace: u.GetNamespace(), Name: u.GetName()}
	return key, s.source.Ignore == nil || !s.source.Ignore(key.Namespace, key.Name)
}

func (s setSink) put(obj any) {
	if u, ok := obj.(*apimeta.Unstructured); ok {
		if key, ours := s.key(u); ours {
			w := s.source.Digest(u.Object)
			s.index.PutSet(key, &w)
		}
	}
}

func (s setSink) remove(obj any) {
	if u, ok := obj.(*apimeta.Unstructured); ok {
		if key, ours := s.key(u); ours {
			s.index.DeleteSet(key)
		}
	}
}

func (s setSink) replace(list []any, _ string) *clustercache.Reverted {
	sets := map[clustercache.Key]*dialect.Workload{}
	for _, obj := range list {
		if u, ok := obj.(*apimeta.Unstructured); ok {
			if key, ours := s.key(u); ours {
				w := s.source.Digest(u.Object)
				sets[key] = &w
			}
		}
	}
	s.index.ReplaceSets(s.source.Dialect, sets)
	return nil // a set is taken from a list whatever its version
}

func (s setSink) seen(string) {}
