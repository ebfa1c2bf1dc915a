// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"crypto/sha256"
	"sync"
)

// maxKnownTokens is the maximum number of remembered tokens.
const maxKnownTokens = 256

// knownTokens are hashes of the tokens of the cluster that were valid in their last review. They are reviewed again
// anyway: a known token has its own quota, but no rights. If there are too many, the least recently used ones are
// removed.
type knownTokens struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]bool
}

func (k *knownTokens) has(token string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	sum := sha256.Sum256([]byte(token))
	return k.young[sum] || k.old[sum]
}

func (k *knownTokens) add(token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.young == nil || len(k.young) >= maxKnownTokens/2 {
		k.old, k.young = k.young, map[[sha256.Size]byte]bool{}
	}
	k.young[sha256.Sum256([]byte(token))] = true
}

func (k *knownTokens) remove(token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sum := sha256.Sum256([]byte(token))
	delete(k.young, sum)
	delete(k.old, sum)
}
