// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/validation"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/revision"
)

// lostTwin is a hash of the template that pods carry and that no revision has any more, while other pods carry that of the current one: there were two
// revisions with the same template, as after a restore, and one was deleted. It is to be written again, with that name, or its pods would count as old.
func (p *pass) lostTwin(h *clustercache.Resolved) (hash, name string) {
	candidates := map[string]bool{}
	maps.Copy(candidates, p.state.history.same)
	if of := p.statusHash(); of != "" {
		candidates[of] = true
	}
	for i := range h.Entries {
		delete(candidates, h.Entries[i].Hash)
	}
	if len(candidates) == 0 {
		return "", ""
	}
	live := p.c.Index.LiveHashes(p.key)
	for _, hash := range slices.Sorted(maps.Keys(candidates)) {
		if !live[hash] {
			delete(p.state.history.same, hash) // no pod gets it again
			continue
		}
		name := p.w.Name + "-" + hash
		named := func(e revision.Entry) bool { return e.Name == name }
		if slices.ContainsFunc(h.Entries, named) { // its label has been changed
			name += "-2"
		}
		if len(validation.NameIsDNSSubdomain(name, false)) == 0 && !slices.ContainsFunc(h.Entries, named) {
			return hash, name
		}
	}
	return "", ""
}
