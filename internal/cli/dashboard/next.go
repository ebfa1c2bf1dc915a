// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"everynode.dev/everynode/internal/cli/inspect"
)

// haltOf is why a rollout gets no further now, in a word or two; empty if it does, or has ended. stalled is for how many seconds there has been no progress.
func haltOf(m *inspect.Evaluation, o inspect.Outcome, stalled int) string {
	p := m.Governance.Report()
	switch {
	case m.Snapshot.Set.Paused:
		return "paused"
	case p != nil && p.Suspended:
		return "suspended"
	case o.State != inspect.Rolling:
		return ""
	case len(o.Left) > 0 && len(o.Left) == len(o.Unreachable):
		return "nodes not ready"
	case stalled > 0 || hasStuck(m):
		return "stuck"
	default:
		return ""
	}
}

func hasStuck(m *inspect.Evaluation) bool {
	for i, v := range m.Plan.Verdicts {
		if n := &m.Snapshot.Nodes[i]; n.Ready && inspect.StuckBy(n, v.Kind, m.Snapshot.Set.Update) != "" {
			return true
		}
	}
	return false
}
