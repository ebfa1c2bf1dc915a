// SPDX-License-Identifier: Apache-2.0

package pullstore

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NodeStore keeps the nodes of the manager, which reads them once for its index and for this store (feed.NodeStore).
type NodeStore struct {
	// notifyMu is held during a change and its notification.
	notifyMu sync.Mutex
	notify   []func(now, before *corev1.Node) // of those that follow

	mu    sync.Mutex
	all   map[string]*corev1.Node // nil before the first Replace
	known chan struct{}           // closed by that
}

// NewNodeStore returns an empty store.
func NewNodeStore() *NodeStore { return &NodeStore{known: make(chan struct{})} }

// Keep returns the part of a node that the store needs: only the fields that image pulls and holds of nodes use.
func (*NodeStore) Keep(n *corev1.Node) *corev1.Node {
	kept := &corev1.Node{ObjectMeta: n.ObjectMeta, Spec: corev1.NodeSpec{Taints: n.Spec.Taints, Unschedulable: n.Spec.Unschedulable}}
	kept.ManagedFields, kept.Annotations = nil, nil
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			kept.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
		}
	}
	return kept
}

// Put replaces the stored node with the same name. Nodes before the first Replace are ignored: a watch always begins with a Replace.
func (s *NodeStore) Put(kept *corev1.Node) { s.change(kept.Name, kept) }

// Remove forgets a node.
func (s *NodeStore) Remove(name string) { s.change(name, nil) }

func (s *NodeStore) change(name string, now *corev1.Node) {
	s.notifyMu.Lock()
	defer s.notifyMu.Unlock()
	s.mu.Lock()
	before, known := s.all[name], s.all != nil
	switch {
	case known && now != nil:
		s.all[name] = now
	case known:
		delete(s.all, name)
	}
	s.mu.Unlock()
	if known && (now != nil || before != nil) {
		s.notifyAll(now, before)
	}
}

// Replace keeps these nodes and no others.
func (s *NodeStore) Replace(kept []*corev1.Node) {
	s.notifyMu.Lock()
	defer s.notifyMu.Unlock()
	all := make(map[string]*corev1.Node, len(kept))
	for _, n := range kept {
		all[n.Name] = n
	}
	s.mu.Lock()
	before := s.all
	if s.all = all; before == nil {
		close(s.known)
	}
	s.mu.Unlock()
	for name, n := range all {
		s.notifyAll(n, before[name])
	}
	for name, n := range before {
		if all[name] == nil {
			s.notifyAll(nil, n)
		}
	}
}

func (s *NodeStore) notifyAll(now, before *corev1.Node) {
	for _, notify := range s.notify {
		notify(now, before)
	}
}

// Follow waits until the nodes are known, and then calls notify for each and for each later change, one at a time. It must not block.
func (s *NodeStore) Follow(ctx context.Context, notify func(now, before *corev1.Node)) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.known:
	}
	s.notifyMu.Lock()
	defer s.notifyMu.Unlock()
	s.notify = append(s.notify, notify)
	for _, n := range s.all { // it changes only under notifyMu
		notify(n, nil)
	}
	return nil
}

var errNodesUnknown = errors.New("the nodes have not been read yet")

// reader reads nodes from a NodeStore, and all else from a cache.
type reader struct {
	client.Reader
	nodes *NodeStore
}

// Get implements client.Reader.
func (r reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
	into, ok := obj.(*corev1.Node)
	if !ok {
		return r.Reader.Get(ctx, key, obj, o...)
	}
	r.nodes.mu.Lock()
	defer r.nodes.mu.Unlock()
	switch n := r.nodes.all[key.Name]; {
	case r.nodes.all == nil:
		return errNodesUnknown
	case n == nil:
		return apierrors.NewNotFound(corev1.Resource("nodes"), key.Name)
	default:
		n.DeepCopyInto(into)
		return nil
	}
}

// List implements client.Reader. It returns all nodes, whatever the options are, and the caller must not change them.
func (r reader) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	into, ok := list.(*corev1.NodeList)
	if !ok {
		return r.Reader.List(ctx, list, o...)
	}
	r.nodes.mu.Lock()
	defer r.nodes.mu.Unlock()
	if r.nodes.all == nil {
		return errNodesUnknown
	}
	into.Items = make([]corev1.Node, 0, len(r.nodes.all))
	for _, n := range r.nodes.all {
		into.Items = append(into.Items, *n)
	}
	return nil
}
