// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"sync"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/podtemplate"
)

// maker makes pods of a revision, with the readiness gates and the annotations that the dialect needs.
func (p *pass) maker(h *clustercache.Resolved, index int) makerOf {
	m := p.state.makers.of(p.w, h, index)
	if p.d.Edits == nil {
		return m
	}
	return m.WithGates(p.d.Edits.Gates(p.w)).WithAnnotations(p.w.PodAnnotations)
}

type makerOf = *podtemplate.Maker

// makerCache keeps the Makers of one generation of a set, by revision hash. It is safe for concurrent use.
type makerCache struct {
	mu     sync.Mutex
	id     string
	makers map[string]makerOf
}

// of returns the Maker of the revision with that index. The current one is made from the object's own template; an older one,
// for a node that is held back, from the history.
func (c *makerCache) of(w *dialect.Workload, h *clustercache.Resolved, index int) makerOf {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := fmt.Sprint(w.UID, w.Generation); c.id != id {
		c.id, c.makers = id, map[string]makerOf{}
	}
	entry := &h.Entries[index]
	m := c.makers[entry.Hash]
	if m == nil {
		if index == h.Current {
			m = podtemplate.NewMaker(w.Template, w.Placement)
		} else {
			spec, _ := entry.Template["spec"].(map[string]any)
			rules, _ := placement.Compile(spec) // what cannot be read of an old template was refused when it was new
			m = podtemplate.NewMaker(entry.Template, rules)
		}
		c.makers[entry.Hash] = m
	}
	return m
}
