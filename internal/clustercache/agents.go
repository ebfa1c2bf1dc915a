// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"maps"

	"everynode.dev/everynode/api/everynode"
)

// agentTable counts, by node, the pods of everynode-agent that are ready: an agent that is not ready pulls nothing.
type agentTable map[string]int

// isAgent is whether a pod is one of everynode-agent that works. Only a pod of a daemon set in the namespace of the agents counts: any user may
// give the same labels to a pod of another namespace.
func (p *podRecord) isAgent() bool {
	return p.ready && !p.deleting && p.node != nil && p.origin.owner != "" && p.origin.namespace == everynode.AgentNamespace &&
		p.labels.set[everynode.AgentLabel] == everynode.AgentName
}

func (t agentTable) add(p *podRecord) {
	if p.isAgent() {
		t[p.node.Name]++
	}
}

func (t agentTable) remove(p *podRecord) {
	if !p.isAgent() {
		return
	}
	if t[p.node.Name]--; t[p.node.Name] == 0 {
		delete(t, p.node.Name)
	}
}

// Agents returns the nodes on which an agent is ready.
func (x *Index) Agents() map[string]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.agents)
}
