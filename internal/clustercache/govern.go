// SPDX-License-Identifier: Apache-2.0

package clustercache

import "everynode.dev/everynode/internal/rollout"

// Govern records whether a rollout policy may hold nodes of a set back. Then a change of the labels of a node asks for a pass, and a node without a pod keeps the
// revision that it had.
func (x *Index) Govern(key Key, governed bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.sets[key]; s != nil {
		s.governed = governed
	}
}

// Labels returns the labels of nodes, in their order; nil for a node that does not exist. They must not be changed.
func (x *Index) Labels(nodes []rollout.Node) []map[string]string {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make([]map[string]string, len(nodes))
	for i := range nodes {
		if n := x.nodes.byName[nodes[i].Name]; n != nil && n.exists {
			all[i] = n.Node.Labels
		}
	}
	return all
}

// NodesOf returns the nodes as they are now, in the order of some nodes; only with their name if they do not exist. Their labels and taints must not be changed.
func (x *Index) NodesOf(nodes []rollout.Node) []Node {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make([]Node, len(nodes))
	for i := range nodes {
		if n := x.nodes.byName[nodes[i].Name]; n != nil && n.exists {
			all[i] = n.Node
		} else {
			all[i].Name = nodes[i].Name
		}
	}
	return all
}
