// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/podtemplate"
)

// maker makes pods of a revision, with the readiness gates and the annotations that the dialect needs.
func (p *pass) maker(h *clustercache.Resolved, index int) makerOf {
	var more additions
	if p.d.Edits != nil {
		more = additions{p.d.Edits.Gates(p.w), p.w.PodAnnotations}
	}
	return p.state.makers.of(p.w, h, index, more)
}

type makerOf = *podtemplate.Maker

// additions are what pods have in addition to the template. A change of them is not a new generation of the set.
type additions struct {
	gates       []string
	annotations map[string]string
}

func (a additions) equal(b additions) bool {
	return slices.Equal(a.gates, b.gates) && maps.Equal(a.annotations, b.annotations)
}

// makerCache keeps the Makers of one generation of a set, by revision hash: checking that decoding a template
// loses nothing takes longer than creating a pod. It is safe for concurrent use.
type makerCache struct {
	mu     sync.Mutex
	id     generation
	more   additions
	makers map[string]makerOf
}

// generation is one of a set.
type generation struct {
	uid    types.UID
	number int64
}

// of returns the Maker of the revision with that index. The current one is made from the object's own template; an older one,
// for a node that is held back, from the history.
func (c *makerCache) of(w *dialect.Workload, h *clustercache.Resolved, index int, more additions) makerOf {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := (generation{w.UID, w.Generation}); c.id != id || !c.more.equal(more) {
		c.id, c.more, c.makers = id, more, map[string]makerOf{}
	}
	entry := &h.Entries[index]
	m := c.makers[entry.Hash]
	if m == nil {
		if index == h.Current {
			m = podtemplate.NewMaker(w.Template, w.Placement)
		} else {
			spec, _ := entry.Template["spec"].(map[string]any)
			rules, _ := placement.Compile(spec) // fields of an old template that cannot be read were refused when it was new
			m = podtemplate.NewMaker(entry.Template, rules)
		}
		m = m.WithGates(more.gates).WithAnnotations(more.annotations).Decode()
		c.makers[entry.Hash] = m
	}
	return m
}
