// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// Hash returns the hash with which Kubernetes 1.37.1 names the revision of template. It is for naming a new revision
// only, never for comparing: it covers the Go types of the template, so another version of them gives another hash, and
// it has 32 bits, and does not cover fields that our types do not know, so two templates may share one. When its name is
// taken, the set's collisionCount is raised by one and counted in; nil and 0 differ.
func Hash(template map[string]any, collisionCount *int32) (string, error) {
	typed, err := decodeTyped(withoutPatch(template))
	if err != nil {
		return "", err
	}
	hasher := fnv.New32a()
	// A hash never fails to write.
	_, _ = hasher.Write([]byte(dump.ForHash(*typed)))
	if collisionCount != nil {
		// Upstream writes the 32-bit count into eight bytes.
		var count [8]byte
		binary.LittleEndian.PutUint32(count[:], uint32(*collisionCount))
		_, _ = hasher.Write(count[:])
	}
	return rand.SafeEncodeString(fmt.Sprint(hasher.Sum32())), nil
}
