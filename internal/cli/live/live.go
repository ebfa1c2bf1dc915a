// SPDX-License-Identifier: Apache-2.0

// Package live looks at one daemon set of a running cluster and says what would be done for it, without doing anything.
//
// It feeds a fleet.Index of its own with the user's own credentials and asks the same rollout.Decide that the manager
// asks. So what a person is shown is what the manager does, as long as both see the same cluster; it may be a moment
// ahead or behind. What only the manager knows (which write was refused, the back-off of a failed pod from before) is
// not seen here.
package live

import (
	"context"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/internal/fleet"
	"everynode.dev/everynode/internal/fleet/feed"
	"everynode.dev/everynode/internal/rollout"
)

// Options says what to look at.
type Options struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Source is the dialect's kind of set; Namespace and Name name the set, which need not exist yet.
	Source          feed.Source
	Namespace, Name string
}

// Set is one daemon set that is looked at.
type Set struct {
	key     fleet.Key
	index   *fleet.Index
	feed    *feed.Feed
	changed chan struct{}
	memory  rollout.Memory
}

// Watch begins to look and returns when it has a complete picture. It goes on until ctx ends; Wait waits for that.
func Watch(ctx context.Context, o Options) (*Set, error) {
	s := &Set{
		key:     fleet.Key{Dialect: o.Source.Dialect, Namespace: o.Namespace, Name: o.Name},
		changed: make(chan struct{}, 1),
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
	s.feed = &feed.Feed{Index: s.index, Client: o.Client, Dynamic: o.Dynamic, Sources: []feed.Source{o.Source}}
	if err := s.feed.Start(ctx); err != nil {
		return nil, fmt.Errorf("reading the state of %s/%s: %w", o.Namespace, o.Name, err)
	}
	return s, nil
}

// Wait returns when the watches have ended.
func (s *Set) Wait() { s.feed.Wait() }

// Changed gets a value when something that concerns the set has happened since the last look.
func (s *Set) Changed() <-chan struct{} { return s.changed }

// Look returns the set as it is at now, and what Decide makes of it. ok is false while there is no such set. Looks must
// not overlap.
func (s *Set) Look(now rollout.Time) (snapshot rollout.Snapshot, plan rollout.Plan, ok bool) {
	workload := s.index.Workload(s.key)
	if workload == nil {
		return rollout.Snapshot{}, rollout.Plan{}, false
	}
	owned, _ := s.index.History(s.key)
	snapshot, _, ok = s.index.Snapshot(s.key, fleet.Resolve(workload, owned).History(workload), now)
	if !ok {
		return rollout.Snapshot{}, rollout.Plan{}, false
	}
	snapshot.Memory = s.memory
	plan = rollout.Decide(snapshot)
	s.memory = plan.Memory
	return snapshot, plan, true
}
