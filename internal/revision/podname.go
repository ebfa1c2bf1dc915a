// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// safeCharacters is the alphabet of names that Kubernetes generates: without vowels, so that no words come about,
	// and without digits that look like letters.
	safeCharacters = "bcdfghjklmnpqrstvwxz2456789"
	suffixLength   = 10
	// maxPodName is the longest name that can also be the host name of the pod.
	maxPodName = 63
	maxPrefix  = maxPodName - 1 - suffixLength
)

// PodName returns the name of the pod of a set on a node at a revision: the set's name, cut so that the whole has at
// most 63 characters, and ten characters that are derived from everything that tells this pod from others. So a pod that
// is created twice, from an old cache or after a crash, is refused the second time.
//
// The salt is empty, or the UID of a terminating pod that still holds the name.
func PodName(setName string, setUID types.UID, node, hash string, salt string) string {
	suffix := nameSuffix(string(setUID), node, hash, salt)
	prefix := setName
	if len(prefix) > maxPrefix {
		// A part of a name must not end with one of these.
		prefix = strings.TrimRight(prefix[:maxPrefix], "-.")
	}
	if prefix == "" {
		return suffix
	}
	return prefix + "-" + suffix
}

// nameSuffix encodes a hash of parts. Ten of 27 characters hold 47 bits: among the 100,000 pods of a very large set two
// share a name once in 40,000 clusters, and then only one node waits, visibly.
func nameSuffix(parts ...string) string {
	hasher := sha256.New()
	for _, part := range parts {
		// With its length before it, no part can run into the next.
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		hasher.Write(length[:])
		hasher.Write([]byte(part))
	}
	sum := binary.BigEndian.Uint64(hasher.Sum(nil))
	suffix := make([]byte, suffixLength)
	for i := range suffix {
		suffix[i] = safeCharacters[sum%uint64(len(safeCharacters))]
		sum /= uint64(len(safeCharacters))
	}
	return string(suffix)
}
