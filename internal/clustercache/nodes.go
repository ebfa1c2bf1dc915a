// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

// node is a Node in the index, or a missing node.
type node struct {
	// id is negative for a missing node.
	id     int
	exists bool
	Node
	// pods is the number of pods, of any set, that name this node; a missing node without pods, and with no create on its way, is forgotten.
	pods int
	// sets are those that have a state for a missing node.
	sets map[*set]bool
}

func (n *Node) facts() placement.Node {
	return placement.Node{Name: n.Name, Labels: n.Labels, Taints: n.Taints}
}

// nodeView is what a Snapshot reads of a node.
type nodeView struct {
	name           string
	since, created rollout.Time
	id             int
	ready          bool
}

func (n *node) view() nodeView {
	return nodeView{name: n.Name, since: n.Since, created: n.Created, id: n.id, ready: n.Ready}
}

// nodeTable gives each node that exists a small id; ids of nodes that are gone are used again, so that states
// can be slices. Missing nodes, which any user who may create pods can cause, have separate ids, which are
// not reused.
type nodeTable struct {
	byName  map[string]*node
	byID    []*node
	free    []int
	missing int // how many there ever were
	// order holds the views of all nodes that exist sorted by name, next to each other, for a Snapshot reads them all; it is nil when it must be
	// built again, which is before many changes at once.
	order []nodeView
	rv    string
}

func newNodeTable() nodeTable { return nodeTable{byName: map[string]*node{}} }

// missing node makes a missing node of n, which does not exist.
func (t *nodeTable) addMissing(n *node) {
	t.missing++
	n.id = -t.missing
	t.byName[n.Name] = n
}

// enter gives a place to n, which exists from now on.
func (t *nodeTable) enter(n *node) {
	if k := len(t.free); k > 0 {
		n.id, t.free = t.free[k-1], t.free[:k-1]
		t.byID[n.id] = n
	} else {
		n.id = len(t.byID)
		t.byID = append(t.byID, n)
	}
	t.byName[n.Name] = n
	if t.order != nil {
		i, _ := t.place(n.Name)
		t.order = slices.Insert(t.order, i, n.view())
	}
}

// leave takes the place of n.
func (t *nodeTable) leave(n *node) {
	t.byID[n.id] = nil
	t.free = append(t.free, n.id)
	if i, found := t.place(n.Name); found {
		t.order = slices.Delete(t.order, i, i+1)
	}
}

// changed takes what a node has become over into the order.
func (t *nodeTable) changed(n *node) {
	if i, found := t.place(n.Name); found {
		t.order[i] = n.view()
	}
}

// place is where the node of that name is in the order, or would be, and whether it is there.
func (t *nodeTable) place(name string) (int, bool) {
	return slices.BinarySearchFunc(t.order, name, func(s nodeView, name string) int { return strings.Compare(s.name, name) })
}

func (t *nodeTable) sorted() []nodeView {
	if t.order == nil {
		t.order = make([]nodeView, 0, len(t.byName))
		for _, n := range t.byID {
			if n != nil {
				t.order = append(t.order, n.view())
			}
		}
		slices.SortFunc(t.order, func(a, b nodeView) int { return strings.Compare(a.name, b.name) })
	}
	return t.order
}

// PutNode adds or updates a node.
func (x *Index) PutNode(rec Node) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.putNode(rec)
}

func (x *Index) putNode(rec Node) {
	n := x.nodes.byName[rec.Name]
	if n == nil {
		n = &node{Node: Node{Name: rec.Name}}
	}
	if n.exists && !newer(rec.RV, n.RV) {
		return
	}
	appeared := !n.exists
	if appeared {
		x.nodeAppeared(n)
	}
	moved := appeared || !maps.Equal(n.Labels, rec.Labels) || !slices.EqualFunc(n.Taints, rec.Taints, sameTaint)
	turned, before := n.Ready != rec.Ready, n.view()
	n.Node, n.exists = rec, true
	if n.view() != before {
		x.nodes.changed(n)
	}
	x.nodes.rv = rec.RV
	if moved {
		x.reevaluate(n, appeared)
	}
	if turned {
		x.notifyResidents(n)
	}
}

// notifyResidents notifies the sets that have pods on a node: what those are charged may depend on its readiness.
func (x *Index) notifyResidents(n *node) {
	for key, s := range x.sets {
		if s.states[n.id].pods != nil {
			x.notify(key)
		}
	}
}

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// addMissingNode makes a missing node of that name.
func (x *Index) addMissingNode(name string) *node {
	n := &node{Node: Node{Name: name}}
	x.nodes.addMissing(n)
	return n
}

// nodeAppeared gives every set a state for n, which exists from now on; what was noted about the missing node is taken over.
func (x *Index) nodeAppeared(n *node) {
	was := n.id
	x.nodes.enter(n)
	for _, s := range x.sets {
		for len(s.states) <= n.id {
			s.states = append(s.states, nodeState{})
		}
		s.states[n.id] = nodeState{fit: rollout.MustLeave}
		if g := s.missing[was]; g != nil {
			s.states[n.id] = g.nodeState
			s.renumber(was, n.id)
		}
	}
	n.sets = nil
}

// nodeGone turns n into a missing node. A set with data about n keeps its state; other sets have none.
func (x *Index) nodeGone(n *node) {
	was := n.id
	x.nodes.leave(n)
	x.nodes.addMissing(n)
	for _, s := range x.sets {
		c := &s.states[was]
		_, claiming := s.writes.Blocked(was, "")
		if c.pods != nil || c.last != nil || c.unused || s.writes.Creating(was) || claiming {
			kept := s.ensureState(n)
			*kept = *c
			kept.fit = rollout.MustLeave
		}
		*c = nodeState{}
		s.writes.Leave(was)
		s.renumber(was, n.id)
	}
}

// renumber takes over what is noted under the old id of a node.
func (s *set) renumber(was, id int) {
	s.writes.Renumber(was, id)
	delete(s.missing, was)
}

// missingNode is the state of a set for a node that does not exist.
type missingNode struct {
	nodeState
	node *node
}

// state returns the state of a node; nil for a missing node without one.
func (s *set) state(n *node) *nodeState {
	if n.id >= 0 {
		return &s.states[n.id]
	}
	if g := s.missing[n.id]; g != nil {
		return &g.nodeState
	}
	return nil
}

// ensureState is the state of a node; a missing node gets one if it has none.
func (s *set) ensureState(n *node) *nodeState {
	if c := s.state(n); c != nil {
		return c
	}
	if s.missing == nil {
		s.missing = map[int]*missingNode{}
	}
	g := &missingNode{nodeState: nodeState{fit: rollout.MustLeave, selected: s.workload.NodeSelector == nil}, node: n}
	s.missing[n.id] = g
	if n.sets == nil {
		n.sets = map[*set]bool{}
	}
	n.sets[s] = true
	return &g.nodeState
}

// all goes through the states of nodes that exist, and of those that do not and have one.
func (s *set) all(yield func(*nodeState) bool) {
	for id := range s.states {
		if !yield(&s.states[id]) {
			return
		}
	}
	for _, g := range s.missing {
		if !yield(&g.nodeState) {
			return
		}
	}
}

// missingWithPods are the missing nodes with pods of the set, sorted by name.
func (s *set) missingWithPods() []*missingNode {
	var list []*missingNode
	for _, g := range s.missing {
		if g.pods != nil {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b *missingNode) int { return strings.Compare(a.node.Name, b.node.Name) })
	return list
}

// reevaluate evaluates the placement of every set on n and notifies those for which the outcome changed, or all of them.
func (x *Index) reevaluate(n *node, all bool) {
	for key, s := range x.sets {
		if s.evaluateNode(n) || all || s.governed {
			x.notify(key)
		}
	}
}

// DeleteNode removes a node; it stays as a missing node while pods name it.
func (x *Index) DeleteNode(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deleteNode(name)
}

func (x *Index) deleteNode(name string) {
	n := x.nodes.byName[name]
	if n == nil || !n.exists {
		return
	}
	n.Node, n.exists = Node{Name: name}, false
	x.nodeGone(n)
	for key := range x.sets {
		x.notify(key)
	}
	x.forgetMissingNode(n)
}

func (x *Index) forgetMissingNode(n *node) {
	if n.exists || n.pods > 0 || n.createPending() {
		return
	}
	for s := range n.sets {
		delete(s.missing, n.id)
		s.writes.Forget(n.id)
	}
	delete(x.nodes.byName, n.Name)
}

// createPending reports whether a create for a missing node has no answer yet: its pod may still come.
func (n *node) createPending() bool {
	for s := range n.sets {
		if s.writes.Creating(n.id) {
			return true
		}
	}
	return false
}

// ReplaceNodes makes list, which the API server gave at resourceVersion rv, the nodes that exist. Of a node that has gone back see
// ReplacePods.
func (x *Index) ReplaceNodes(list []Node, rv string) *Reverted {
	x.mu.Lock()
	defer x.mu.Unlock()
	if back := x.revertedNode(list, rv); back != nil {
		return back
	}
	x.nodes.order = nil
	listed := make(map[string]bool, len(list))
	for i := range list {
		listed[list[i].Name] = true
		x.putNode(list[i])
	}
	for _, n := range slices.Clone(x.nodes.byID) {
		if n != nil && n.exists && !listed[n.Name] {
			x.deleteNode(n.Name)
		}
	}
	x.nodes.rv = rv
	return nil
}

// NodeCount is the number of nodes that exist.
func (x *Index) NodeCount() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	count := 0
	for _, n := range x.nodes.byName {
		if n.exists {
			count++
		}
	}
	return count
}
