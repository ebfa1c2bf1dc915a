// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Digest is the SHA-256 digest of a decoded template, as hexadecimal digits: unlike for a hash, no other template with it can be found. It is empty without a
// template.
func Digest(template map[string]any) string {
	if template == nil {
		return ""
	}
	data, err := json.Marshal(withoutPatch(template)) // with sorted keys
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
