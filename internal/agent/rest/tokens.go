// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"crypto/sha256"
	"sync"
)

// maxKnownTokens is how many tokens are remembered at most.
const maxKnownTokens = 256

// knownTokens are tokens of the cluster that were good when they were last asked about, as sums. They are asked about again all the same: to be
// remembered gives a token a turn and no right. When there are many, those that were not used for the longest go.
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
