// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/rollout"
)

// ending is the work of a manager that is being stopped while no other takes over: each pass only ends what is under way (rollout.DecideEnding).
type ending struct {
	mu sync.Mutex
	// awaited are the sets for which nothing has been decided yet, and left are the nodes, with their verdicts, on which something is still under way.
	awaited map[clustercache.Key]bool
	left    map[clustercache.Key][]string
	// decided are the sets for which the pass in progress has decided.
	decided map[clustercache.Key]bool
	// changed has a value when awaited or left may have changed.
	changed chan struct{}
}

// Unfinished is a set with nodes on which something is under way, or that no pass has been made for.
type Unfinished struct {
	Set clustercache.Key
	// Nodes has a line for each node, as "node: verdict"; nil if no pass was made.
	Nodes []string
}

// maxListed is how many nodes of a set a log line names.
const maxListed = 20

// String names the set, and its first nodes.
func (u *Unfinished) String() string {
	switch more := len(u.Nodes) - maxListed; {
	case len(u.Nodes) == 0:
		return u.Set.String() + ": not looked at yet"
	case more > 0:
		return fmt.Sprintf("%s: %s and %d more", u.Set, strings.Join(u.Nodes[:maxListed], ", "), more)
	default:
		return u.Set.String() + ": " + strings.Join(u.Nodes, ", ")
	}
}

// End has all passes from now on begin nothing new, and returns when nothing is under way any more that only a manager ends, or when ctx ends. It returns what is
// left then. It logs once what it waits for.
func (c *Controller) End(ctx context.Context) []Unfinished { return c.beginEnding().await(ctx) }

func (c *Controller) beginEnding() *ending {
	e := &ending{awaited: map[clustercache.Key]bool{}, left: map[clustercache.Key][]string{}, decided: map[clustercache.Key]bool{}, changed: make(chan struct{}, 1)}
	for name := range c.dialects {
		for _, key := range c.Index.Keys(name) {
			e.awaited[key] = true
		}
	}
	keys := slices.Collect(maps.Keys(e.awaited))
	c.ending.Store(e)
	for _, key := range keys {
		c.queue.Add(key)
	}
	return e
}

func (e *ending) await(ctx context.Context) []Unfinished {
	for logged := false; ; {
		unfinished, looked := e.unfinished()
		if len(unfinished) == 0 {
			return nil
		}
		if looked && !logged {
			logged = true
			for i := range unfinished {
				klog.FromContext(ctx).Info("Ending what is under way before this manager stops", "waits", unfinished[i].String())
			}
		}
		select {
		case <-ctx.Done():
			return unfinished
		case <-e.changed:
		}
	}
}

// unfinished returns what is left, sorted, and whether a pass has been made for each set.
func (e *ending) unfinished() (all []Unfinished, looked bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.awaited {
		all = append(all, Unfinished{Set: key})
	}
	for key, nodes := range e.left {
		all = append(all, Unfinished{Set: key, Nodes: nodes})
	}
	slices.SortFunc(all, func(a, b Unfinished) int { return cmp.Compare(a.Set.String(), b.Set.String()) })
	return all, len(e.awaited) == 0
}

// decideNow is rollout.Decide, or rollout.DecideEnding if the manager is being stopped for good.
func (p *pass) decideNow(s *rollout.Snapshot) rollout.Plan {
	e := p.ending
	if e == nil {
		return rollout.Decide(*s)
	}
	plan := rollout.DecideEnding(*s)
	var nodes []string
	for _, i := range s.Unfinished(&plan) {
		nodes = append(nodes, s.Nodes[i].Name+": "+plan.Verdicts[i].Kind.String())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.decided[p.key], e.left[p.key] = true, nodes
	return plan
}

// passed records that a pass for a set has ended. Where it has decided nothing, nothing is under way, unless it failed and will be repeated.
func (e *ending) passed(key clustercache.Key, failed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if decided := e.decided[key]; decided || !failed {
		delete(e.awaited, key)
		if !decided || len(e.left[key]) == 0 {
			delete(e.left, key)
		}
	}
	delete(e.decided, key)
	select {
	case e.changed <- struct{}{}:
	default:
	}
}
