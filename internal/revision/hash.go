// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// Hash returns the hash that Kubernetes 1.37.1 uses to name the revision of template. Use it only to name a new
// revision, never to compare: it depends on the version of the Go types, has 32 bits, and does not cover fields that
// our types do not have, so two templates may have the same hash. If the name is taken, the collisionCount of the set
// is incremented, which changes the hash; nil and 0 give different hashes.
func Hash(template map[string]any, collisionCount *int32) (string, error) {
	typed, err := decodeTyped(withoutPatch(template))
	if err != nil {
		return "", err
	}
	hasher := fnv.New32a()
	// Writing to a hash never fails.
	_, _ = hasher.Write([]byte(dump.ForHash(*typed)))
	if collisionCount != nil {
		// Upstream writes the 32-bit count into eight bytes.
		var count [8]byte
		binary.LittleEndian.PutUint32(count[:], uint32(*collisionCount))
		_, _ = hasher.Write(count[:])
	}
	return rand.SafeEncodeString(fmt.Sprint(hasher.Sum32())), nil
}
