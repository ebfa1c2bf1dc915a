// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"maps"
	"slices"
	"unique"
)

// PullSecrets returns the names of the pull secrets that pods of a set have, sorted. The API server gives a pod without any those of its service account.
func (x *Index) PullSecrets(key Key) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.sets[key]
	if s == nil {
		return nil
	}
	lists, names := map[unique.Handle[string]]bool{}, map[string]bool{}
	for i := range s.states {
		for p := s.states[i].pods; p != nil; p = p.next {
			if p.deleting || p.facts == nil || lists[p.facts.PullSecrets] {
				continue
			}
			lists[p.facts.PullSecrets] = true
			for _, name := range p.facts.SecretNames() {
				names[name] = true
			}
		}
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}
