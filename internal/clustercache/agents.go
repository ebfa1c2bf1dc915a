// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"maps"
	"slices"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/rollout"
)

// agentTable counts, by node, the pods of everynode-agent that are ready: an agent that is not ready pulls nothing.
type agentTable struct {
	count map[string]int
	// shared is a copy of count that passes use; nil after a change, which is rare.
	shared map[string]int
}

// isAgent is whether a pod is one of everynode-agent that works. Only a pod of a daemon set in the namespace of the agents counts: any user may
// give the same labels to a pod of another namespace.
func (p *podRecord) isAgent() bool {
	return p.ready && !p.deleting && p.node != nil && p.origin.owner != "" && p.origin.namespace == everynode.AgentNamespace &&
		p.labels.set[everynode.AgentLabel] == everynode.AgentName
}

func (t *agentTable) add(p *podRecord) {
	if p.isAgent() {
		t.count[p.node.Name]++
		t.shared = nil
	}
}

func (t *agentTable) remove(p *podRecord) {
	if !p.isAgent() {
		return
	}
	t.shared = nil
	if t.count[p.node.Name]--; t.count[p.node.Name] == 0 {
		delete(t.count, p.node.Name)
	}
}

// MarkAgents sets Node.Agent in a Snapshot, if a change of it looks at that.
func (x *Index) MarkAgents(s *rollout.Snapshot) {
	if !slices.ContainsFunc(s.Revisions, func(r rollout.Revision) bool { return r.Agent }) {
		return
	}
	agents := x.Agents()
	for i := range s.Nodes {
		s.Nodes[i].Agent = agents[s.Nodes[i].Name] > 0
	}
}

// Agents returns the nodes on which an agent is ready. The map must not be changed: all callers share it.
func (x *Index) Agents() map[string]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.agents.shared == nil {
		x.agents.shared = maps.Clone(x.agents.count)
	}
	return x.agents.shared
}
