// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// safeCharacters is the alphabet of the names that Kubernetes generates: no vowels, so that no words appear, and no
	// digits that look like letters.
	safeCharacters = "bcdfghjklmnpqrstvwxz2456789"
	suffixLength   = 10
	// maxPodName is the maximum length of a pod name that is also the host name of the pod.
	maxPodName = 63
	maxPrefix  = maxPodName - 1 - suffixLength
)

// PodKey identifies a pod of a set on a node.
type PodKey struct {
	SetName string
	SetUID  types.UID
	Node    string
	// Hash is the hash of the revision of the pod.
	Hash string
	// Salt is empty, or the UID of the pod of the same revision that this pod replaces, or the UID of a foreign pod that
	// has the name.
	Salt string
}

// Name returns the name of the pod: the name of the set, truncated so that the result has at most 63 characters, and
// ten characters derived from the rest of the key. So if a pod is created twice, from an outdated cache or after a
// crash, the API server rejects the second create.
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

// nameSuffix encodes a hash of parts. Ten of 27 characters hold 47 bits: among the 100,000 pods of a very large set, a
// collision happens in one of 40,000 clusters; it blocks one node, with a verdict that shows it.
func nameSuffix(parts ...string) string {
	var message []byte
	for _, part := range parts {
		// The length prefix separates the parts unambiguously.
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
