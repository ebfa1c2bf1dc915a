// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/subtle"
	"net/http"
	"strings"

	"everynode.dev/everynode/localplane/internal/realnode"
)

// User is the user for changes of the registry, with the password of the plane. Pulls need no authentication.
const User = realnode.RegistryUser

// allowed reports whether a request is allowed. Changes need the password, because the images run as root on the nodes.
// So does the request with which a client checks whether it must authenticate.
func (s *server) allowed(w http.ResponseWriter, r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if reads && strings.TrimSuffix(r.URL.Path, "/") != "/v2" {
		return true
	}
	user, password, _ := r.BasicAuth()
	right := subtle.ConstantTimeCompare([]byte(password), []byte(s.password)) == 1
	if user == User && right {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="localplane"`)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte(`{"errors":[{"code":"UNAUTHORIZED","message":"user ` + User + ` with the password in pki/registry-password of the plane may push"}]}`))
	return false
}
