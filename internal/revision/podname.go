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

// PodKey is everything that tells the pod of a set on a node from other pods.
type PodKey struct {
	SetName string
	SetUID  types.UID
	Node    string
	// Hash is the hash of the pod's revision.
	Hash string
	// Salt is empty, or the UID of the pod of the same revision that this one replaces, or that of a pod of somebody else that has the name.
	Salt string
}

// Name returns the name of the pod: the set's name, cut so that the whole has at most 63 characters, and ten characters
// derived from the rest of the key. So a pod that is created twice, from an old cache or after a crash, is refused the
// second time.
func (k PodKey) Name() string {
	suffix := nameSuffix(string(k.SetUID), k.Node, k.Hash, k.Salt)
	prefix := k.SetName
	if len(prefix) > maxPrefix {
		// No part of a name may end with one of these.
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
	var message []byte
	for _, part := range parts {
		// With its length before it, no part can run into the next.
		message = binary.BigEndian.AppendUint64(message, uint64(len(part)))
		message = append(message, part...)
	}
	digest := sha256.Sum256(message)
	rest := binary.BigEndian.Uint64(digest[:])
	suffix := make([]byte, suffixLength)
	for i := range suffix {
		suffix[i] = safeCharacters[rest%uint64(len(safeCharacters))]
		rest /= uint64(len(safeCharacters))
	}
	return string(suffix)
}
