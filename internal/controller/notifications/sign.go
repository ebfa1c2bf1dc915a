// SPDX-License-Identifier: Apache-2.0

package notifications

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"everynode.dev/everynode/internal/controller/endpoint"
)

// The headers and the key of a signature, as the Standard Webhooks specify them.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
	keyPrefix       = "whsec_"
	minKey, maxKey  = 24, 64
)

// readKeys reads the keys of a target. No error shows what a file contains.
func readKeys(files []string) ([][]byte, error) {
	keys := make([][]byte, 0, len(files))
	for i, file := range files {
		text, err := endpoint.ReadSecret(file)
		if err != nil {
			return nil, fmt.Errorf("signingKeyFiles[%d]: %w", i, err)
		}
		encoded, found := strings.CutPrefix(text, keyPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !found || err != nil || len(key) < minKey || len(key) > maxKey {
			return nil, fmt.Errorf("signingKeyFiles[%d]: %s must have %s and %d to %d bytes in base64", i, file, keyPrefix, minKey, maxKey)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// sign adds the headers with which a receiver recognizes an event, how old the request is, and that it was sent by who has one of the keys.
func sign(h http.Header, m *message, keys [][]byte, now time.Time) {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	signatures := make([]string, 0, len(keys))
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%s.", m.id, timestamp) // a hash takes everything
		_, _ = mac.Write(m.body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	h.Set(headerID, m.id)
	h.Set(headerTimestamp, timestamp)
	h.Set(headerSignature, strings.Join(signatures, " "))
}
