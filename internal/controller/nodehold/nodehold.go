// SPDX-License-Identifier: Apache-2.0

// Package nodehold holds pods of other workloads back from a node that comes back, until the pods of Advanced DaemonSets that ask for that are ready there.
//
// Vocabulary: a hold is the taint everynode.HoldTaint on a node. A set asks with the annotation everynode.ComeBackFirst. A node is in use while its kubelet
// says that it is ready, and it is not cordoned.
//
// The rule: a hold is put on a node only while the node is not in use, so it never takes a node away from the scheduler. It is removed when each set that
// asks, and should run there, has a ready pod on the node, or when the node has been in use for as long as the sets ask for.
//
// No hold begins while the sets are not this manager's, or have not been read. But one that is there ends by time also then, because no other program
// removes it, and a kubelet may have registered its node with it.
package nodehold

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/controller/loop"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

// workers is how many nodes are looked at at once, and soon when a node is looked at again that could not be decided. unread is for how long a node in use stays
// held at least while it is not known which sets ask. again is when a node is held again if it must still be held, after a user or another program has released it.
const (
	workers = 2
	soon    = time.Second
	unread  = 5 * time.Minute
	again   = time.Minute
)

// Nodes are the nodes of the API server.
type Nodes interface {
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Node, error)
}

// Sets are the sets in the cache.
type Sets interface {
	Keys(dialect string) []clustercache.Key
	Workload(key clustercache.Key) *dialect.Workload
}

// Options are the parts of a Controller.
type Options struct {
	Nodes Nodes
	Sets  Sets
	// Dialect is the one whose sets may ask, and Namespaces are where they may.
	Dialect    string
	Namespaces []string
	Clock      clock.WithTicker
	// MayServe is whether the sets are this manager's, and Known whether all have been read.
	MayServe, Known func() bool
}

// Controller is the loop over nodes. Make one with New.
type Controller struct {
	Options
	loop *loop.Loop[string]
	// enqueue asks for a pass for the node of that name.
	enqueue func(name string)
	// ending is whether no other manager follows this one.
	ending atomic.Bool

	mu    sync.Mutex
	nodes map[string]*corev1.Node
	// ready has the nodes with a ready pod of each set that asks and for which was decided.
	ready map[clustercache.Key]map[string]bool
	// asked is what each of these sets asked for when it was decided for last.
	asked map[clustercache.Key]request
	// since is when a node with a hold was first seen in use. It is lost with the process: the hold then stays for longer, by the same time at most.
	since map[string]time.Time
	// put is when a node was held last, until this controller releases it.
	put map[string]time.Time
}

// request is what a set asks for: where its pods run, and for how long other pods wait for one at most.
type request struct {
	placement *placement.Rules
	atMost    time.Duration
}

// New returns a Controller.
func New(o Options) *Controller {
	c := &Controller{
		Options: o, nodes: map[string]*corev1.Node{}, ready: map[clustercache.Key]map[string]bool{}, asked: map[clustercache.Key]request{},
		since: map[string]time.Time{}, put: map[string]time.Time{},
	}
	c.loop = loop.New("nodehold", o.Clock, c.Reconcile)
	c.enqueue = c.loop.Enqueue
	return c
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) { c.loop.Run(ctx, workers) }

// NodeChanged receives each node, each change of it, and its end.
func (c *Controller) NodeChanged(now, before *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now == nil {
		delete(c.nodes, before.Name)
		delete(c.since, before.Name)
		delete(c.put, before.Name)
		for _, nodes := range c.ready {
			delete(nodes, before.Name)
		}
		return
	}
	c.nodes[now.Name] = now
	same := before != nil && now.UID == before.UID && inUse(now) == inUse(before) && held(now) == held(before)
	if same && (inUse(now) && !held(now) || samePlace(now, before)) {
		return // kubelets write the status of their nodes often
	}
	c.enqueue(now.Name)
}

// samePlace reports whether the same sets run on a node as before.
func samePlace(now, before *corev1.Node) bool {
	return maps.Equal(now.Labels, before.Labels) && slices.EqualFunc(now.Spec.Taints, before.Spec.Taints, func(a, b corev1.Taint) bool {
		return a.MatchTaint(&b) && a.Value == b.Value
	})
}

// Decided receives the Snapshot of a decision; it does not keep it.
func (c *Controller) Decided(key clustercache.Key, s *rollout.Snapshot) {
	w, asks := c.asks(key)
	if !asks {
		c.Forgotten(key)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ready, known := c.ready[key]
	if !known {
		ready = map[string]bool{}
		c.ready[key] = ready
	}
	if last := c.asked[key]; !known || last.atMost != w.ComeBackFirst || !last.placement.Same(w.Placement) {
		c.asked[key] = request{w.Placement, w.ComeBackFirst}
		c.enqueueAll()
		known = false // each node gets a pass already
	}
	serving := 0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		is := slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool { return p.Ready && !p.Deleting })
		if is {
			serving++
		}
		switch {
		case is == ready[n.Name]:
			continue
		case is:
			ready[n.Name] = true
		default:
			delete(ready, n.Name)
		}
		if known {
			c.enqueue(n.Name)
		}
	}
	if len(ready) > serving { // a node has left the set
		listed := make(map[string]bool, len(s.Nodes))
		for i := range s.Nodes {
			listed[s.Nodes[i].Name] = true
		}
		for name := range ready {
			if !listed[name] {
				delete(ready, name)
				c.enqueue(name)
			}
		}
	}
}

// Forgotten receives a set for which nothing is decided any more.
func (c *Controller) Forgotten(key clustercache.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.ready[key]; !known {
		return
	}
	delete(c.ready, key)
	delete(c.asked, key)
	c.enqueueAll()
}

// Refused receives a set for which nothing is decided as long as it is not valid: until then it does not ask.
func (c *Controller) Refused(key clustercache.Key) { c.Forgotten(key) }

// EnqueueAll asks for a pass for every node.
func (c *Controller) EnqueueAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueueAll()
}

func (c *Controller) enqueueAll() {
	for name := range c.nodes {
		c.enqueue(name)
	}
}

// End releases all nodes, because no other manager follows, and holds none from now on. It returns when that is done or ctx ends, with the nodes that are still held.
func (c *Controller) End(ctx context.Context) []string {
	c.ending.Store(true)
	c.EnqueueAll()
	for {
		left := c.Held()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return left
		case <-c.Clock.After(soon):
		}
	}
}

// Held returns the names of the nodes that are held.
func (c *Controller) Held() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, node := range c.nodes {
		if held(node) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// asks returns a set that may ask, and asks. One for which nothing is done, because it is not valid, does not.
func (c *Controller) asks(key clustercache.Key) (*dialect.Workload, bool) {
	if key.Dialect != c.Dialect || !slices.Contains(c.Namespaces, key.Namespace) {
		return nil, false
	}
	w := c.Sets.Workload(key)
	asks := w != nil && !w.Deleting && w.ComeBackFirst > 0
	return w, asks && !slices.ContainsFunc(w.Problems, func(p dialect.Problem) bool { return p.Fatal })
}

// Reconcile is one pass for the node of that name.
func (c *Controller) Reconcile(ctx context.Context, name string) (time.Duration, error) {
	mayServe := c.MayServe()
	served := mayServe && c.Known()
	c.mu.Lock()
	node := c.nodes[name]
	waits, atMost, known := c.waits(node, served)
	left := c.left(node, atMost)
	put := c.put[name]
	c.mu.Unlock()
	switch {
	case node == nil:
		return 0, nil
	case held(node) && left <= 0: // also if it is not known who asks
	case !known && !held(node) && (inUse(node) || !mayServe):
		return 0, nil
	case !known && mayServe:
		return soon, nil
	case !held(node) && waits != "" && !inUse(node):
		if rest := again - c.Clock.Since(put); rest > 0 {
			return rest, nil // a user, or another program, has removed it
		}
		klog.FromContext(ctx).Info("Holding other pods back from a node", "node", name, "until", waits+" is ready there")
		return c.write(ctx, node, append(slices.Clone(node.Spec.Taints), everynode.HoldTaint()))
	case held(node) && known && waits == "":
	case held(node) && inUse(node):
		return left, nil
	default:
		return 0, nil
	}
	klog.FromContext(ctx).Info("Releasing a node for other pods", "node", name, "waits", waits)
	return c.write(ctx, node, slices.DeleteFunc(slices.Clone(node.Spec.Taints), everynode.IsHold))
}

// waits returns a set that has no ready pod on a node, and for how long sets ask to wait for that; known is whether all sets that ask were decided for. If they
// are not served, that is not known, and they are taken to ask for some time.
func (c *Controller) waits(node *corev1.Node, served bool) (set string, atMost time.Duration, known bool) {
	if node == nil || c.ending.Load() {
		return "", 0, true
	}
	known = served
	if !served {
		atMost = unread
	}
	for _, key := range c.Sets.Keys(c.Dialect) {
		w, asks := c.asks(key)
		if !asks || w.Placement.Fit(inUseAs(node)) != rollout.MustRun {
			continue
		}
		nodes, decided := c.ready[key]
		known = known && decided
		if !served || !nodes[node.Name] || !isReady(node) {
			set, atMost = key.Namespace+"/"+key.Name, max(atMost, w.ComeBackFirst)
		}
	}
	return set, atMost, known
}

// left is for how long a hold may stay, and remembers when the node was first in use with it.
func (c *Controller) left(node *corev1.Node, atMost time.Duration) time.Duration {
	if node == nil || !held(node) || !inUse(node) {
		if node != nil {
			delete(c.since, node.Name)
		}
		return atMost + 1
	}
	now := c.Clock.Now()
	since, known := c.since[node.Name]
	if !known {
		c.since[node.Name], since = now, now
	}
	return atMost - now.Sub(since)
}

// write gives a node these taints, unless it has changed since.
func (c *Controller) write(ctx context.Context, node *corev1.Node, taints []corev1.Taint) (time.Duration, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"taints": taints},
	})
	if err != nil {
		return 0, fmt.Errorf("writing the taints of node %s: %w", node.Name, err)
	}
	_, err = c.Nodes.Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil {
		c.wrote(node.Name, slices.ContainsFunc(taints, everynode.IsHold))
	}
	switch {
	case apierrors.IsConflict(err):
		return soon, nil // the next pass has the newer node
	case apierrors.IsNotFound(err):
		return 0, nil
	case apierrors.IsForbidden(err):
		return 0, fmt.Errorf("writing the taints of node %s: %w: if no policy or webhook denies it, bind the ClusterRole everynode-manager-come-back-first to the service account of the manager", node.Name, err)
	case err != nil:
		return 0, fmt.Errorf("writing the taints of node %s: %w", node.Name, err)
	}
	return 0, nil
}

// wrote remembers whether a node was held or released.
func (c *Controller) wrote(name string, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held {
		c.put[name] = c.Clock.Now()
	} else {
		delete(c.put, name)
	}
}

// inUseAs is what placement reads of a node when it is in use, and has no hold: without the taints of its conditions, and those of a node that its cloud provider has
// not initialized yet, or has shut down.
func inUseAs(node *corev1.Node) placement.Node {
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return everynode.IsHold(t) || strings.HasPrefix(t.Key, "node.kubernetes.io/") || strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/")
	})
	return placement.Node{Name: node.Name, Labels: node.Labels, Taints: taints}
}

func inUse(node *corev1.Node) bool { return isReady(node) && !node.Spec.Unschedulable }

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func held(node *corev1.Node) bool { return slices.ContainsFunc(node.Spec.Taints, everynode.IsHold) }
