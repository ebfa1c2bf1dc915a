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

// longestText is the maximum number of bytes that Redact returns: the text is written to a status, and a registry may
// return any amount.
const longestText = 4 << 10

// User info and query of a URL may contain passwords, tokens and signatures. In JSON, the slashes of a URL may be
// escaped, and an ampersand is escaped as \u0026.
var (
	userInfo = regexp.MustCompile(`(` + scheme + `)[^\s"'<>/?]*@`)
	queries  = regexp.MustCompile(`(` + scheme + `(?:[^\s"'<>\\?]|` + escape + `)*\?)(?:[^\s"'<>\\]|` + escape + `)+`)
)

const (
	scheme = `[A-Za-z][A-Za-z0-9+.-]*:\\*/\\*/`
	escape = `\\+(?:/|u00[0-9A-Fa-f]{2})`
)

// Redact removes the user info and the query of all URLs from a text, and truncates it. It is for messages of a runtime
// or a registry that have received no credentials.
func Redact(text string) string {
	text = userInfo.ReplaceAllString(text, "${1}"+redacted+"@")
	text = queries.ReplaceAllString(text, "${1}"+redacted)
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + " [truncated]"
	}
	return text
}

// Reason describes why a pull that used credentials failed. It does not copy text from the error, which may contain the
// credentials in any encoding, but lists the known phrases that the error contains.
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

// phrases returns the phrases that Reason reports; a phrase comes before its own substrings.
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
