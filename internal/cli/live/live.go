// SPDX-License-Identifier: Apache-2.0

// Package live observes DaemonSets of a running cluster and computes the decisions about them, without acting.
//
// It fills its own clustercache.Index with the credentials of the user, and calls the same rollout.Decide as the manager. So
// users see what the manager does, as far as both see the same state of the cluster; one may be slightly ahead. State
// that only the manager has (rejected writes, the back-off of earlier failed pods) is not included.
//
// Read reads once, with lists; Watch observes one set continuously, and WatchAll all sets.
package live

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// InPlaceFunc reports whether a pod can be updated in place from one template to another.
type InPlaceFunc func(from, to map[string]any) rollout.Change

// Options define what to observe.
type Options struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Source is the kind of the set in its dialect; Namespace and Name name the set, which need not exist yet.
	Source          dialect.Source
	Namespace, Name string
	// Facts reads the facts about pods that the dialect needs, InPlace is its function; both may be nil.
	Facts   dialect.FactsFunc
	InPlace InPlaceFunc
	// OwnNamespace restricts reads to the namespace of the set, which needs fewer rights.
	OwnNamespace bool
	// Govern may be nil: then there are no rollout policies.
	Govern GovernFunc
}

// Set is an observed DaemonSet.
type Set struct {
	*Fleet
	key     clustercache.Key
	govern  GovernFunc
	changed chan struct{}
}

// Watch starts to observe, and returns when the initial lists are complete. It runs until ctx ends; use Wait to wait
// for that.
func Watch(ctx context.Context, o Options) (*Set, error) {
	s := &Set{
		key:     clustercache.Key{Dialect: o.Source.Dialect, Namespace: o.Namespace, Name: o.Name},
		govern:  o.Govern,
		changed: make(chan struct{}, 1),
	}
	all := FleetOptions{
		Client: o.Client, Dynamic: o.Dynamic, Kinds: []Kind{{Source: o.Source, InPlace: o.InPlace}}, Facts: o.Facts,
		Changed: func(key clustercache.Key) {
			if key != s.key {
				return
			}
			select {
			case s.changed <- struct{}{}:
			default: // there is a pending signal already
			}
		},
	}
	if o.OwnNamespace {
		all.Namespace = o.Namespace
	}
	var err error
	if s.Fleet, err = WatchAll(ctx, all); err != nil {
		return nil, fmt.Errorf("reading the state of %s/%s: %w", o.Namespace, o.Name, err)
	}
	return s, nil
}

// Changed receives a value when something relevant to the set has changed since the last Evaluate.
func (s *Set) Changed() <-chan struct{} { return s.changed }

// Evaluate returns the set at now, and its decision. ok is false if the set does not exist. Do not call it
// concurrently.
func (s *Set) Evaluate(now rollout.Time) (snapshot rollout.Snapshot, plan rollout.Plan, ok bool) {
	view, plan, ok := s.Decide(s.key, now, s.govern)
	return view.Snapshot, plan, ok
}

// Workload returns the latest state of the set, or nil if it does not exist.
func (s *Set) Workload() *dialect.Workload { return s.index.Workload(s.key) }

// Began is View.Began for the current state.
func (s *Set) Began() rollout.Time {
	workload := s.index.Workload(s.key)
	if workload == nil {
		return 0
	}
	owned, _ := s.index.History(s.key)
	return (&View{History: clustercache.Resolve(workload, owned)}).Began()
}

// View is what is known about one set at one moment.
type View struct {
	Workload *dialect.Workload
	History  *clustercache.Resolved
	Snapshot rollout.Snapshot
	// Labels are the labels of the nodes of the Snapshot, by index.
	Labels []map[string]string
	// Nodes are the nodes of the Snapshot, by index.
	Nodes []clustercache.Node
	// PullSecrets are the names of the pull secrets that the pods have.
	PullSecrets []string
	// inPlace returns how pods of the set change in place; ReadSet provides it.
	inPlace InPlaceFunc
}

// Changes returns how pods get from one revision to another in place; nil if the set changes none.
func (v *View) Changes() func(from, to int) rollout.Change {
	return v.History.Changes(v.Workload, v.inPlace)
}

// GovernFunc puts into the Snapshot of a view what rollout policies allow, before the decision.
type GovernFunc func(view *View)

// Began returns when the update to the current revision began: the creation time of the revision. It is 0 if that is
// unknown: the revision is older than another one, or is not stored yet.
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

// Decide is rollout.Decide, except for a set that the manager ignores because its specification is rejected, or because
// it is being deleted: nothing is evaluated then.
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

// evaluate builds the Snapshot of a set as the manager does.
func evaluate(index *clustercache.Index, key clustercache.Key, inPlace InPlaceFunc, now rollout.Time) (View, bool) {
	workload := index.Workload(key)
	if workload == nil {
		return View{}, false
	}
	owned, _ := index.History(key)
	resolved := clustercache.Resolve(workload, owned)
	history := resolved.History(workload)
	if inPlace != nil && workload.Set.InPlace {
		for i := range resolved.Entries {
			if i != history.Update {
				history.Revisions[i].Change = inPlace(resolved.Entries[i].Template, workload.Template)
			}
		}
	}
	snapshot, _, ok := index.Snapshot(key, history, now)
	index.MarkAgents(&snapshot)
	return View{Workload: workload, History: resolved, Snapshot: snapshot, Labels: index.Labels(snapshot.Nodes), Nodes: index.NodesOf(snapshot.Nodes), PullSecrets: index.PullSecrets(key), inPlace: inPlace}, ok
}
