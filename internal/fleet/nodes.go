// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

// node is a Node in the index, or a ghost.
type node struct {
	id     int
	exists bool
	Node
	// pods is the number of pods, of any set, that name this node; a ghost without pods, and with no create on its way, is forgotten.
	pods int
}

func (n *Node) facts() placement.Node {
	return placement.Node{Name: n.Name, Labels: n.Labels, Taints: n.Taints}
}

// sight is what a Snapshot reads of a node.
type sight struct {
	name           string
	since, created rollout.Time
	id             int
	exists, ready  bool
}

func (n *node) sight() sight {
	return sight{name: n.Name, since: n.Since, created: n.Created, id: n.id, exists: n.exists, ready: n.Ready}
}

// nodeTable gives each node a small id; ids of forgotten nodes are used again, so that cells can be slices.
type nodeTable struct {
	byName map[string]*node
	byID   []*node
	free   []int
	// order holds the sights of all nodes sorted by name, side by side, for a Snapshot goes through them all; it is nil when it has to be
	// made anew, which is before many changes at once.
	order []sight
	rv    string
}

func newNodeTable() nodeTable { return nodeTable{byName: map[string]*node{}} }

func (t *nodeTable) add(name string) *node {
	n := &node{Node: Node{Name: name}}
	if k := len(t.free); k > 0 {
		n.id, t.free = t.free[k-1], t.free[:k-1]
		t.byID[n.id] = n
	} else {
		n.id = len(t.byID)
		t.byID = append(t.byID, n)
	}
	t.byName[name] = n
	if t.order != nil {
		i, _ := t.place(name)
		t.order = slices.Insert(t.order, i, n.sight())
	}
	return n
}

func (t *nodeTable) remove(n *node) {
	delete(t.byName, n.Name)
	t.byID[n.id] = nil
	t.free = append(t.free, n.id)
	if i, found := t.place(n.Name); found {
		t.order = slices.Delete(t.order, i, i+1)
	}
}

// changed takes what a node has become over into the order.
func (t *nodeTable) changed(n *node) {
	if i, found := t.place(n.Name); found {
		t.order[i] = n.sight()
	}
}

// place is where the node of that name is in the order, or would be, and whether it is there.
func (t *nodeTable) place(name string) (int, bool) {
	return slices.BinarySearchFunc(t.order, name, func(s sight, name string) int { return strings.Compare(s.name, name) })
}

func (t *nodeTable) sorted() []sight {
	if t.order == nil {
		t.order = make([]sight, 0, len(t.byName))
		for _, n := range t.byID {
			if n != nil {
				t.order = append(t.order, n.sight())
			}
		}
		slices.SortFunc(t.order, func(a, b sight) int { return strings.Compare(a.name, b.name) })
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
		n = x.addNode(rec.Name)
	}
	if n.exists && !newer(rec.RV, n.RV) {
		return
	}
	appeared := !n.exists
	moved := appeared || !maps.Equal(n.Labels, rec.Labels) || !slices.EqualFunc(n.Taints, rec.Taints, sameTaint)
	turned, before := n.Ready != rec.Ready, n.sight()
	n.Node, n.exists = rec, true
	if n.sight() != before {
		x.nodes.changed(n)
	}
	x.nodes.rv = rec.RV
	if moved {
		x.refit(n, appeared)
	}
	if turned {
		x.notifyResidents(n)
	}
}

// notifyResidents notifies the sets that have pods on a node: what those are charged may depend on its readiness.
func (x *Index) notifyResidents(n *node) {
	for key, s := range x.sets {
		if s.cells[n.id].pods != nil {
			x.notify(key)
		}
	}
}

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// addNode makes a ghost of that name with its cells.
func (x *Index) addNode(name string) *node {
	n := x.nodes.add(name)
	for _, s := range x.sets {
		for len(s.cells) <= n.id {
			s.cells = append(s.cells, cell{})
		}
		s.cells[n.id] = cell{fit: rollout.MustLeave}
	}
	return n
}

// refit evaluates the placement of every set on n and notifies those for which the outcome changed, or all of them.
func (x *Index) refit(n *node, all bool) {
	for key, s := range x.sets {
		if s.look(n) || all {
			x.notify(key)
		}
	}
}

// DeleteNode removes a node; it stays as a ghost while pods name it.
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
	x.nodes.changed(n)
	for _, s := range x.sets {
		s.cells[n.id].fit = rollout.MustLeave
		delete(s.blocks, n.id)
		delete(s.refused, n.id)
		x.notify(s.key)
	}
	x.forgetGhost(n)
}

func (x *Index) forgetGhost(n *node) {
	if n.exists || n.pods > 0 || x.pends(n) {
		return
	}
	for _, s := range x.sets {
		s.cells[n.id] = cell{}
		delete(s.blocks, n.id)
		delete(s.refused, n.id)
	}
	x.nodes.remove(n)
}

// pends is whether a create for n has no answer yet: its pod may still come.
func (x *Index) pends(n *node) bool {
	for _, s := range x.sets {
		if _, pending := s.pending[n.id]; pending {
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
