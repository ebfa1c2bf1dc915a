// SPDX-License-Identifier: Apache-2.0

package policyinput

import (
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

// Places remembers where pods of one revision may run, because thousands of terms compared with thousands of nodes take seconds. The zero value is empty. It is not safe for concurrent use.
type Places struct {
	hash  string
	rules *placement.Rules
	nodes map[string]placed
}

// placed is the result for one version of a node.
type placed struct {
	version string
	fit     rollout.Fit
}

// Fits returns where pods of a revision may run by its own template (policy.Input); nil if another controller creates the pods. nodes returns the nodes of the Snapshot.
func (c *Places) Fits(w *dialect.Workload, h *clustercache.Resolved, nodes func() []clustercache.Node) func(revision int) []rollout.Fit {
	if w.Set.ExternalController {
		return nil
	}
	return func(revision int) []rollout.Fit {
		if revision < 0 || revision >= len(h.Entries) || h.Entries[revision].Template == nil || w.Placement == nil {
			return nil
		}
		if of := &h.Entries[revision]; c.rules == nil || c.hash != of.Hash {
			spec, _ := of.Template["spec"].(map[string]any)
			rules, _ := placement.Compile(spec) // fields of an old template that cannot be read were refused when it was new
			*c = Places{hash: of.Hash, rules: rules}
		}
		if c.rules == nil || c.rules.Same(w.Placement) {
			c.nodes = nil
			return nil
		}
		all := nodes()
		fits, now := make([]rollout.Fit, len(all)), make(map[string]placed, len(all))
		for i := range all {
			n := &all[i]
			was, known := c.nodes[n.Name]
			switch {
			case n.RV == "": // it does not exist
				fits[i] = rollout.MustLeave
				continue
			case !known || was.version != n.RV:
				was = placed{n.RV, c.rules.Fit(placement.Node{Name: n.Name, Labels: n.Labels, Taints: n.Taints})}
			}
			fits[i], now[n.Name] = was.fit, was
		}
		c.nodes = now
		return fits
	}
}
