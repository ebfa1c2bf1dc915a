// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/live"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
)

// Fleet is all sets that are watched, with their policies.
type Fleet struct {
	*live.Fleet
	o         *options.Options
	c         *options.Clients
	namespace string
	kinds     []live.Kind

	// reading is held while policies are read. Meanwhile, sets are evaluated with the last ones.
	reading sync.Mutex

	mu    sync.Mutex // held while sets are evaluated, and never while the API server is asked
	rules *governor
	// read is when the last read of the policies has ended.
	read time.Time
	// unread is the reason why policies or approvals cannot be read.
	unread string
}

// Watching is what WatchAll watches.
type Watching struct {
	// Namespace is the namespace of the sets; empty means all.
	Namespace string
	// Changed is called when a set has changed. It must not wait.
	Changed func(key clustercache.Key)
	// Turned is called when a connection was lost or is there again. It must not wait.
	Turned func()
}

// WatchAll watches sets. It checks the rights first: a rejected watch would be retried forever. Kinds that the cluster does not have, or that the user may not
// read, are left out, the latter with a note; at least one must remain.
func WatchAll(ctx context.Context, o *options.Options, c *options.Clients, w Watching) (*Fleet, error) {
	kinds, err := mayWatchAll(ctx, c, w.Namespace, o.Note)
	if err != nil {
		return nil, err
	}
	f := &Fleet{o: o, c: c, namespace: w.Namespace, kinds: kinds}
	f.Fleet, err = live.WatchAll(ctx, live.FleetOptions{
		Client: c.Kubernetes, Dynamic: c.Dynamic, Kinds: kinds, Namespace: w.Namespace, Facts: facts(), Changed: w.Changed, Turned: w.Turned,
	})
	if err != nil {
		return nil, Explain(err)
	}
	return f, nil
}

// MayWatch returns an error that names the right without which nodes, pods and ControllerRevisions of a namespace, or of all, cannot be watched.
func MayWatch(ctx context.Context, c *options.Clients, namespace string) error {
	for _, r := range []options.Request{
		{Verb: "watch", Resource: schema.GroupResource{Resource: "nodes"}},
		{Verb: "watch", Resource: schema.GroupResource{Resource: "pods"}, Namespace: namespace},
		{Verb: "watch", Resource: schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, Namespace: namespace},
	} {
		for _, verb := range []string{"list", r.Verb} {
			r.Verb = verb
			if err := c.May(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// MayWatchSets returns an error that names the right without which WatchAll would fail for a namespace, or for all.
func MayWatchSets(ctx context.Context, c *options.Clients, namespace string) error {
	_, err := mayWatchAll(ctx, c, namespace, func(string, ...any) {})
	return err
}

// mayWatchAll returns the kinds that can be watched.
func mayWatchAll(ctx context.Context, c *options.Clients, namespace string, note func(format string, args ...any)) ([]live.Kind, error) {
	if err := MayWatch(ctx, c, namespace); err != nil {
		return nil, err
	}
	var kinds []live.Kind
	var refused error
	for _, d := range resolver.Kinds(c) {
		if err := mayWatchKind(ctx, c, d.Source, namespace); err != nil {
			refused = err
			note("%s are left out: %v", d.Source.Resource.GroupResource(), err)
			continue
		}
		kinds = append(kinds, live.Kind{Source: d.Source, InPlace: d.InPlace})
	}
	if len(kinds) == 0 {
		return nil, refused
	}
	return kinds, nil
}

func mayWatchKind(ctx context.Context, c *options.Clients, kind dialect.Source, namespace string) error {
	for _, verb := range []string{"list", "watch"} {
		if err := c.May(ctx, options.Request{Verb: verb, Resource: kind.Resource.GroupResource(), Namespace: namespace}); err != nil {
			return err //nolint:wrapcheck // it names the right
		}
	}
	return nil
}

// StillMay returns an error that names the right if the user may no longer watch what is watched: a watch that has begun does not notice this.
func (f *Fleet) StillMay(ctx context.Context) error {
	if err := MayWatch(ctx, f.c, f.namespace); err != nil {
		return err
	}
	for i := range f.kinds {
		if err := mayWatchKind(ctx, f.c, f.kinds[i].Source, f.namespace); err != nil {
			return err
		}
	}
	return nil
}

// Sets returns all sets, by namespace and name. Their objects have metadata only.
func (f *Fleet) Sets() []*resolver.Set {
	keys := f.Keys()
	sets := make([]*resolver.Set, 0, len(keys))
	for _, key := range keys {
		if w := f.WorkloadOf(key); w != nil {
			sets = append(sets, resolver.FromWorkload(key, w))
		}
	}
	return sets
}

// At evaluates a set now; ok is false if it does not exist.
func (f *Fleet) At(ctx context.Context, key clustercache.Key) (m *Evaluation, ok bool) {
	f.refresh(ctx, key.Namespace)
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.WorkloadOf(key)
	if w == nil {
		return nil, false
	}
	set := resolver.FromWorkload(key, w)
	governance := f.rules.of(ctx, set)
	if len(governance.Policies) == 1 {
		governance.Neighbours = f.rules.neighbours(ctx, set, governance.Policies[0].Rules, f.o.Time())
	}
	view, plan, ok := f.Decide(key, f.o.Time(), governance.Govern)
	if !ok {
		return nil, false
	}
	return &Evaluation{View: view, Set: set, Plan: plan, Governance: governance}, true
}

// PoliciesOf returns the policies that apply to a set; none if it does not exist.
func (f *Fleet) PoliciesOf(ctx context.Context, key clustercache.Key) []*policies.Policy {
	f.refresh(ctx, key.Namespace)
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.WorkloadOf(key)
	if w == nil {
		return nil
	}
	return f.rules.of(ctx, resolver.FromWorkload(key, w)).Policies
}

// policyPatience is the timeout of a read of the policies: in the meantime, sets are evaluated with the last ones.
const policyPatience = 5 * time.Second

// fleetRereads is how long policies are used before they are read again, with one request for all sets. failedRereads is how long the next read waits after one that failed:
// such a read may take as long as policyPatience.
const (
	fleetRereads  = time.Second
	failedRereads = 2 * policyPatience
	// rereadWait is how long a caller waits for policies if there are earlier ones. An API server that is well answers sooner.
	rereadWait = 300 * time.Millisecond
)

// refresh reads the policies and approvals again from time to time, and for a new namespace. If that fails, the last ones remain in use. One caller waits a moment for a
// read, and the others only if there are no policies for the namespace yet.
func (f *Fleet) refresh(ctx context.Context, namespace string) {
	fresh, known := f.state(namespace)
	switch {
	case fresh && known:
	case !known:
		f.reading.Lock()
		defer f.reading.Unlock()
		f.reread(ctx, namespace)
	case f.reading.TryLock():
		read := make(chan struct{})
		go func() {
			defer close(read)
			defer f.reading.Unlock()
			f.reread(ctx, namespace)
		}()
		timer := time.NewTimer(rereadWait)
		defer timer.Stop()
		select {
		case <-read:
		case <-timer.C:
		}
	}
}

// reread reads the policies and approvals, unless another caller has done that meanwhile. f.reading must be held.
func (f *Fleet) reread(ctx context.Context, namespace string) {
	if fresh, known := f.state(namespace); fresh && known {
		return
	}
	rules, unread := f.readRules(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read, f.unread = f.o.Now(), unread
	if unread == "" || f.rules == nil {
		f.rules = rules
	}
	if _, known := f.rules.read[namespace]; !known {
		f.rules.read[namespace], f.rules.approved[namespace] = nil, nil // it is tried again with the others
	}
}

// state reports whether the policies need not be read again yet, and whether there are policies for a namespace.
func (f *Fleet) state(namespace string) (fresh, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rules == nil {
		return false, false
	}
	rereads := fleetRereads
	if f.unread != "" {
		rereads = failedRereads
	}
	_, known = f.rules.read[namespace]
	return f.o.Now().Sub(f.read) < rereads, known
}

// readRules reads the policies and approvals; unread is the reason if that fails.
func (f *Fleet) readRules(ctx context.Context) (rules *governor, unread string) {
	// The result is for all callers, even if the current caller leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), policyPatience)
	defer cancel()
	rules = &governor{c: f.c, note: func(string, ...any) {}, fleet: f, read: map[string][]*policies.Policy{}, approved: map[string][]v1alpha1.RolloutApproval{}}
	for _, key := range f.Keys() {
		rules.read[key.Namespace], rules.approved[key.Namespace] = nil, nil
	}
	all, unread := policies.All(ctx, f.c, f.namespace)
	for _, p := range all {
		rules.read[p.Typed.Namespace] = append(rules.read[p.Typed.Namespace], p)
	}
	if len(all) > 0 && unread == "" {
		approvals, err := policies.Approvals(ctx, f.c, f.namespace)
		if err != nil {
			unread = fmt.Sprintf("the approvals of rollouts cannot be read: %v", err)
		}
		for i := range approvals {
			rules.approved[approvals[i].Namespace] = append(rules.approved[approvals[i].Namespace], approvals[i])
		}
	}
	return rules, unread
}

// Unread is the reason why policies or approvals cannot be read; empty if they can.
func (f *Fleet) Unread() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unread
}
