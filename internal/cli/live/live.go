// SPDX-License-Identifier: Apache-2.0

// Package live looks at daemon sets of a running cluster and says what would be done for them, without doing anything.
//
// It feeds a fleet.Index of its own with the user's own credentials and asks the same rollout.Decide that the manager
// asks. So what a person is shown is what the manager does, as long as both see the same cluster; it may be a moment
// ahead or behind. What only the manager knows (which write was refused, the back-off of a failed pod from before) is
// not seen here.
//
// Read looks once, with lists; Watch goes on looking at one set.
package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/fleet"
	"everynode.dev/everynode/internal/fleet/feed"
	"everynode.dev/everynode/internal/rollout"
)

// InPlaceFunc says whether a pod of one template can be made one of another in place.
type InPlaceFunc func(from, to map[string]any) rollout.Change

// Options says what to look at.
type Options struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Source is the dialect's kind of set; Namespace and Name name the set, which need not exist yet.
	Source          dialect.Source
	Namespace, Name string
	// Facts reads what the dialect needs to know of a pod, InPlace is its own; both may be nil.
	Facts   dialect.FactsFunc
	InPlace InPlaceFunc
	// OwnNamespace is whether only the set's namespace is read, for which fewer rights are enough.
	OwnNamespace bool
}

// Set is one daemon set that is looked at.
type Set struct {
	key     fleet.Key
	index   *fleet.Index
	feed    *feed.Feed
	inPlace InPlaceFunc
	changed chan struct{}
	memory  rollout.Memory

	mu   sync.Mutex
	lost map[string]error // why there is no news of a resource
}

// Watch begins to look and returns when it has a complete picture. It goes on until ctx ends; Wait waits for that.
func Watch(ctx context.Context, o Options) (*Set, error) {
	s := &Set{
		key:     fleet.Key{Dialect: o.Source.Dialect, Namespace: o.Namespace, Name: o.Name},
		inPlace: o.InPlace,
		changed: make(chan struct{}, 1),
		lost:    map[string]error{},
	}
	s.index = fleet.NewIndex(func(key fleet.Key) {
		if key != s.key {
			return
		}
		select {
		case s.changed <- struct{}{}:
		default: // somebody who has not looked yet will see this change too
		}
	})
	s.index.ReadFacts(o.Facts)
	s.feed = &feed.Feed{Index: s.index, Client: o.Client, Dynamic: o.Dynamic, Sources: []dialect.Source{o.Source}, Report: s.recordListError}
	if o.OwnNamespace {
		s.feed.Namespace = o.Namespace
	}
	if err := s.feed.Start(ctx); err != nil {
		return nil, fmt.Errorf("reading the state of %s/%s: %w", o.Namespace, o.Name, err)
	}
	return s, nil
}

// Wait returns when the watches have ended.
func (s *Set) Wait() { s.feed.Wait() }

// Changed gets a value when something that concerns the set has happened since the last look.
func (s *Set) Changed() <-chan struct{} { return s.changed }

// recordListError takes in how it went to watch a resource.
func (s *Set) recordListError(resource string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if neverWorked(err) {
		s.lost[resource] = err
	} else {
		delete(s.lost, resource)
	}
}

// neverWorked is whether err says that the API server gives no news. That a version is too old, say, is an answer; and who stops looking asks for none.
func neverWorked(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code := status.Status().Code
		return code >= http.StatusInternalServerError || code == http.StatusUnauthorized || code == http.StatusForbidden
	}
	return err != nil && !errors.Is(err, context.Canceled)
}

// Lost is why there is no news of the set at present, so that what is seen may be old; nil where there is.
func (s *Set) Lost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	resources := slices.Sorted(maps.Keys(s.lost))
	if len(resources) == 0 {
		return nil
	}
	return s.lost[resources[0]]
}

// Evaluate returns the set as it is at now, and what Decide makes of it. ok is false while there is no such set. Looks must
// not overlap.
func (s *Set) Evaluate(now rollout.Time) (snapshot rollout.Snapshot, plan rollout.Plan, ok bool) {
	view, ok := evaluate(s.index, s.key, s.inPlace, now)
	if !ok {
		return rollout.Snapshot{}, rollout.Plan{}, false
	}
	view.Snapshot.Memory = s.memory
	plan = Decide(view.Workload, view.Snapshot)
	s.memory = plan.Memory
	return view.Snapshot, plan, true
}

// Workload is the newest that is known of the set; nil while there is no such set.
func (s *Set) Workload() *dialect.Workload { return s.index.Workload(s.key) }

// Began is View.Began for what is known of the set now.
func (s *Set) Began() rollout.Time {
	workload := s.index.Workload(s.key)
	if workload == nil {
		return 0
	}
	owned, _ := s.index.History(s.key)
	return (&View{History: fleet.Resolve(workload, owned)}).Began()
}

// View is what is known of one set at one moment.
type View struct {
	Workload *dialect.Workload
	History  *fleet.Resolved
	Snapshot rollout.Snapshot
}

// Began is when the update to the current revision began: when the revision was made. It is 0 where that tells nothing: a set that goes back to a
// revision that is older than others, and one whose revision is not written yet.
func (v *View) Began() rollout.Time {
	if v.History == nil || v.History.Current < 0 {
		return 0
	}
	began := v.History.Revisions[v.History.Current].Created
	for i := range v.History.Revisions {
		if r := &v.History.Revisions[i]; i != v.History.Current && r.Created >= began {
			return 0
		}
	}
	return began
}

// Decide is rollout.Decide, but for a set that the manager leaves alone because something in it cannot be honoured, or because it is being
// deleted: nothing is evaluated then.
func Decide(w *dialect.Workload, s rollout.Snapshot) rollout.Plan {
	plan := rollout.Decide(s)
	fatal := slices.ContainsFunc(w.Problems, func(p dialect.Problem) bool { return p.Fatal })
	if !fatal && !w.Deleting {
		return plan
	}
	verdicts := make([]rollout.Verdict, len(s.Nodes))
	for i := range verdicts {
		if plan.Verdicts[i].Kind == rollout.NotWanted {
			verdicts[i] = plan.Verdicts[i]
		}
	}
	return rollout.Plan{Status: plan.Status, Budget: plan.Budget, Verdicts: verdicts, Memory: s.Memory}
}

// evaluate makes the Snapshot of a set as the manager makes it.
func evaluate(index *fleet.Index, key fleet.Key, inPlace InPlaceFunc, now rollout.Time) (View, bool) {
	workload := index.Workload(key)
	if workload == nil {
		return View{}, false
	}
	owned, _ := index.History(key)
	resolved := fleet.Resolve(workload, owned)
	history := resolved.History(workload)
	if inPlace != nil && workload.Set.InPlace {
		for i := range resolved.Entries {
			if i != history.Update {
				history.Revisions[i].Change = inPlace(resolved.Entries[i].Template, workload.Template)
			}
		}
	}
	snapshot, _, ok := index.Snapshot(key, history, now)
	return View{Workload: workload, History: resolved, Snapshot: snapshot}, ok
}
