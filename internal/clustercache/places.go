// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"k8s.io/apimachinery/pkg/labels"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// evaluation is the placement of a set on one version of a node.
type evaluation struct {
	id       int
	node     Node
	fit      rollout.Fit
	selected bool
}

// evaluate evaluates the placement of a set on each node, if that may have changed. It does not hold the
// lock: with thousands of nodes and affinity terms it takes seconds, and all sets would wait. place evaluates
// the nodes again that have changed in the meantime.
func (x *Index) evaluate(key Key, w *dialect.Workload) []evaluation {
	was := x.Workload(key)
	if was != nil && was.UID == w.UID && (was.Generation == w.Generation || samePlaces(was, w)) {
		return nil
	}
	list := x.existing()
	for i := range list {
		e := &list[i]
		e.fit, e.selected = fitOf(w, &e.node), selects(w, &e.node)
	}
	return list
}

// existing lists the nodes that exist, by id.
func (x *Index) existing() []evaluation {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := make([]evaluation, 0, len(x.nodes.byName))
	for _, n := range x.nodes.byID {
		if n != nil {
			list = append(list, evaluation{id: n.id, node: n.Node})
		}
	}
	return list
}

// place evaluates the placement of s on every node. For nodes that have not changed since evaluate ran, it uses the results in found.
func (x *Index) place(s *set, found []evaluation) {
	for len(s.states) < len(x.nodes.byID) {
		s.states = append(s.states, nodeState{})
	}
	for id, n := range x.nodes.byID {
		for len(found) > 0 && found[0].id < id {
			found = found[1:]
		}
		switch {
		case n == nil:
		case len(found) > 0 && found[0].id == id && found[0].node.Name == n.Name && found[0].node.RV == n.RV:
			s.states[id].fit, s.states[id].selected = found[0].fit, found[0].selected
		default:
			s.evaluateNode(n)
		}
	}
}

// evaluateNode evaluates the placement of s on one existing node, and reports whether the result has changed.
func (s *set) evaluateNode(n *node) bool {
	c := &s.states[n.id]
	fit, selected := fitOf(s.workload, &n.Node), selects(s.workload, &n.Node)
	changed := fit != c.fit || selected != c.selected
	c.fit, c.selected = fit, selected
	return changed
}

func fitOf(w *dialect.Workload, n *Node) rollout.Fit {
	if w.Placement == nil {
		return 0
	}
	return w.Placement.Fit(n.facts())
}

// selects reports whether an update of a set may start on n, as far as labels go.
func selects(w *dialect.Workload, n *Node) bool {
	return w.NodeSelector == nil || w.NodeSelector.Matches(labels.Set(n.Labels))
}

// samePlaces reports whether two generations of a set have the same placement on every node. Most edits change only an image or a number.
func samePlaces(a, b *dialect.Workload) bool {
	selector := func(w *dialect.Workload) string {
		if w.NodeSelector == nil {
			return "none"
		}
		return w.NodeSelector.String()
	}
	return a.Placement.Same(b.Placement) && (a.NodeSelector == nil) == (b.NodeSelector == nil) && selector(a) == selector(b)
}
