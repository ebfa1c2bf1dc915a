// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/validation"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/revision"
)

// writeTwin writes the revision that lostTwin names again, and reports whether that has changed the history. If it is refused, or takes long, the set goes on: which pods have the
// hash is known (lostHashes), but another controller or the next leader would replace them.
func (p *pass) writeTwin(ctx context.Context, h *clustercache.Resolved) (moved bool) {
	hash, name := p.lostTwin(h)
	if hash == "" || !p.mayTidy() {
		return false
	}
	r := p.revisionOf(max(h.Revisions[h.Current].Number-1, 0), name, hash)
	r.kind = writesOldRevision
	err := p.createRevisionAs(ctx, r)
	if errors.Is(err, errNameTaken) {
		p.state.tidyAfter = p.c.Clock.Now().Add(tidyPause)
		return false
	}
	return p.tidyMoved(ctx, err)
}

// lostHashes are the hashes of the template that no revision has any more. Pods that carry them are up to date.
func (p *pass) lostHashes(h *clustercache.Resolved) []string {
	if h.Current < 0 || p.w.Set.ExternalController {
		return nil
	}
	hashes := p.candidates(h)
	if hash := p.replacedHash(h); hash != "" {
		hashes[hash] = true
	}
	return slices.Collect(maps.Keys(hashes))
}

// candidates are the hashes that the template has had, as far as is known, and that no revision has any more.
func (p *pass) candidates(h *clustercache.Resolved) map[string]bool {
	hashes := map[string]bool{}
	maps.Copy(hashes, p.state.history.same)
	if of := p.statusHash(); of != "" {
		hashes[of] = true
	}
	for i := range h.Entries {
		delete(hashes, h.Entries[i].Hash)
	}
	return hashes
}

// lostTwin is a hash of the template that pods carry and that no revision has any more, while other pods carry that of the current one: there were two
// revisions with the same template, as after a restore, and one was deleted. It is to be written again, with that name, or its pods would count as old.
func (p *pass) lostTwin(h *clustercache.Resolved) (hash, name string) {
	candidates := p.candidates(h)
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
