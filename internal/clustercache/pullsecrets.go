// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"cmp"
	"maps"
	"slices"
	"unique"

	"everynode.dev/everynode/internal/dialect"
)

// maxPullSecrets is how many names PullSecrets returns. Each is copied into image pull jobs and NodeImages, and who may create pods that a set adopts can give them any number.
const maxPullSecrets = 16

// PullSecrets returns the names of the pull secrets that pods of a set have, sorted; of more than maxPullSecrets, those that most pods have. The API server gives a pod without any
// those of its service account.
func (x *Index) PullSecrets(key Key) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.sets[key]
	if s == nil {
		return nil
	}
	lists := map[unique.Handle[string]]int{}
	for i := range s.states {
		for p := s.states[i].pods; p != nil; p = p.next {
			if !p.deleting && p.facts != nil {
				lists[p.facts.PullSecrets]++
			}
		}
	}
	pods := map[string]int{}
	for list, n := range lists {
		for _, name := range (&dialect.PodFacts{PullSecrets: list}).SecretNames() {
			pods[name] += n
		}
	}
	delete(pods, "")
	names := slices.SortedFunc(maps.Keys(pods), func(a, b string) int { return cmp.Or(cmp.Compare(pods[b], pods[a]), cmp.Compare(a, b)) })
	names = names[:min(len(names), maxPullSecrets)]
	slices.Sort(names)
	return names
}
