// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// redacted replaces the user info and the query of a URL.
const redacted = "[redacted]"

// longestText is how many bytes of a text Redact returns: it goes into a status, and a registry may answer with any amount.
const longestText = 4 << 10

// User info and query of a URL carry passwords, tokens and signatures. In JSON the slashes of a URL may be escaped, and an ampersand is: \u0026.
var (
	userInfo = regexp.MustCompile(`(` + scheme + `)[^\s"'<>/?]*@`)
	queries  = regexp.MustCompile(`(` + scheme + `(?:[^\s"'<>\\?]|` + escape + `)*\?)(?:[^\s"'<>\\]|` + escape + `)+`)
)

const (
	scheme = `[A-Za-z][A-Za-z0-9+.-]*:\\*/\\*/`
	escape = `\\+(?:/|u00[0-9A-Fa-f]{2})`
)

// Redact removes the user info and the query of all URLs from a text, and shortens it. It is for texts of a runtime or a registry that were given
// no credentials.
func Redact(text string) string {
	text = userInfo.ReplaceAllString(text, "${1}"+redacted+"@")
	text = queries.ReplaceAllString(text, "${1}"+redacted)
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + " [truncated]"
	}
	return text
}

// Reason says why a pull failed that used credentials. It returns none of the words of the error, which may quote the credentials in any encoding,
// but fixed ones: those of the known phrases that the error contains.
func Reason(err error) string {
	text := strings.ToLower(err.Error())
	found := ""
	for _, phrase := range phrases() {
		if p := strings.ToLower(phrase); strings.Contains(text, p) && !strings.Contains(strings.ToLower(found), p) {
			found += ", " + phrase
		}
	}
	if found == "" {
		found = ", unknown error"
	}
	return found[2:] + " (the pull used credentials, so details are only in the log of the container runtime)"
}

// phrases are what Reason reports, the more specific before those that are part of them.
func phrases() []string {
	all := []string{}
	for code := http.StatusBadRequest; code <= http.StatusNetworkAuthenticationRequired; code++ {
		if text := http.StatusText(code); text != "" {
			all = append(all, fmt.Sprintf("%d %s", code, text))
		}
	}
	return append(all,
		// registries
		"unauthorized", "pull access denied", "access to the resource is denied", "authorization failed", "authentication required",
		"no basic auth credentials", "invalid username/password", "insufficient_scope", "toomanyrequests", "manifest unknown", "no match for platform",
		"not found",
		// the network
		"no such host", "connection refused", "connection reset by peer", "network is unreachable", "no route to host", "i/o timeout",
		"TLS handshake timeout", "server gave HTTP response to HTTPS client", "certificate signed by unknown authority",
		"certificate has expired or is not yet valid", "x509", "unexpected EOF", "EOF", "proxyconnect",
		// the runtime and the node
		"error while dialing", "context deadline exceeded", "context canceled", "no space left on device", "read-only file system",
		"too many open files", "failed to verify", "failed to extract layer", "signature")
}
