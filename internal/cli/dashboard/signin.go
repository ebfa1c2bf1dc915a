// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// tokenCookie has the token of a user who has signed in on the page, namespaceCookie the namespace to show. A browser takes a cookie with this prefix only over TLS and
	// for this host alone, so neither another host of the domain nor a page without TLS can set it.
	tokenCookie     = "__Host-everynode-dashboard"
	namespaceCookie = "__Host-everynode-namespace"
	// longestCookie is the maximum size of a token in a cookie: browsers accept 4,096 bytes with the name and the attributes.
	longestCookie = 3800
	// healthPath is for the probes of the kubelet.
	healthPath = "/healthz"
)

// What the page must ask the user for.
const (
	askToken     = "token"
	askNamespace = "namespace"
	// askReload is for a window that was opened for another user or namespace.
	askReload = "reload"
)

// windowHeader has the identity for which a window was opened. The windows of a browser share a cookie, and a user can sign in to another one of them.
const windowHeader = "X-Everynode-Window"

var errOtherWindow = errors.New("another user has signed in, or another namespace was chosen, in another window: load the page again")

// window is the identity of the windows of a session. It stays the same when the token of the user is renewed.
func (s *session) window() string {
	sum := sha256.Sum256([]byte(s.user + "\x00" + s.key.namespace))
	return hex.EncodeToString(sum[:16])
}

// handler answers all requests of all users.
func (p *portal) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/session", p.fromPage(p.postSession))
	mux.HandleFunc("DELETE /api/session", p.fromPage(p.deleteSession))
	mux.HandleFunc("GET /api/session", p.fromPage(p.within(p.session)))
	mux.HandleFunc("/api/", p.fromPage(p.within(func(w http.ResponseWriter, r *http.Request, s *session) { s.data.ServeHTTP(w, r) })))
	serveFiles(mux)
	protected := p.protect(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == healthPath { // the kubelet names no host
			_, _ = w.Write([]byte("ok"))
			return
		}
		if !strings.HasPrefix(r.Host, "localhost") { // which other programs of the machine use too
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		protected.ServeHTTP(w, r)
	})
}

// within serves a request within the session of its token. The request ends with the session.
func (p *portal) within(next func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, err := credential(r)
		if err != nil {
			refuse(w, r, err)
			return
		}
		s, leave, err := p.enter(r.Context(), clientOf(r), token, namespaceOf(r))
		if err != nil {
			refuse(w, r, err)
			return
		}
		defer leave()
		if of := r.Header.Get(windowHeader); of != "" && of != s.window() {
			refuse(w, r, errOtherWindow)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		next(w, r.WithContext(ctx), s)
	}
}

// clientOf is the address of the client of a request. Behind a proxy it is that of the proxy.
func clientOf(r *http.Request) string { return addressOf(r.RemoteAddr) }

// addressOf is the address of a remote end; of IPv6 the network, in which a client has any number of addresses.
func addressOf(remote string) string {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	address := from.Addr().Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	network, err := address.Prefix(64)
	if err != nil {
		return address.String()
	}
	return network.String()
}

// credential returns the token of a request. A proxy that authenticates users sends it in the header; then no cookie counts.
func credential(r *http.Request) (token string, err error) {
	if given := r.Header.Values("Authorization"); len(given) > 0 {
		scheme, token, _ := strings.Cut(given[0], " ")
		if len(given) != 1 || !strings.EqualFold(scheme, "Bearer") || !isToken(token) {
			return "", fmt.Errorf("the header Authorization has no bearer token: %w", errToken)
		}
		return token, nil
	}
	cookies := r.CookiesNamed(tokenCookie)
	switch {
	case len(cookies) == 0:
		return "", errNoToken
	case len(cookies) > 1, !isToken(cookies[0].Value):
		return "", errToken
	}
	return cookies[0].Value, nil
}

// isToken reports whether a text can be a bearer token (RFC 6750).
func isToken(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~+/=", r)
	}) < 0
}

// namespaceOf returns the namespace that a user has chosen; empty for all.
func namespaceOf(r *http.Request) string {
	cookie, err := r.Cookie(namespaceCookie)
	if err != nil || len(validation.IsDNS1123Label(cookie.Value)) > 0 {
		return ""
	}
	return cookie.Value
}

// postSession accepts a token and a namespace. A proxy may send the token instead. The form of the page always sends a namespace with a token, if only an empty one; the page itself
// sends a token alone if it was in the address, which another site can have chosen: a user would act with the token of that site, and not notice it.
func (p *portal) postSession(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token     string  `json:"token"`
		Namespace *string `json:"namespace"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		fail(w, http.StatusBadRequest, "the token is missing")
		return
	}
	if body.Namespace == nil {
		fail(w, http.StatusBadRequest, "a token in the address does not open a session here: sign in on the page")
		return
	}
	if *body.Namespace != "" && len(validation.IsDNS1123Label(*body.Namespace)) > 0 {
		fail(w, http.StatusBadRequest, "this is not a name of a namespace: use lower-case letters, digits and '-'")
		return
	}
	if body.Token != "" {
		if err := p.check(r.Context(), clientOf(r), body.Token); err != nil {
			refuse(w, r, err)
			return
		}
		http.SetCookie(w, cookie(tokenCookie, body.Token))
	}
	http.SetCookie(w, cookie(namespaceCookie, *body.Namespace))
	w.WriteHeader(http.StatusNoContent)
}

// check returns an error if a token cannot be used.
func (p *portal) check(ctx context.Context, client, token string) error {
	if !isToken(token) {
		return errToken
	}
	if len(token) > longestCookie {
		return fmt.Errorf("the token has more than %d bytes, which do not fit into a cookie: sign in through a proxy that sends it (docs/dashboard.md): %w", longestCookie, errToken)
	}
	clients, err := p.clients(token)
	if err != nil {
		return err
	}
	_, err = p.admit(ctx, client, token, func(ctx context.Context) (string, error) { return p.review(ctx, clients) })
	return err
}

// deleteSession ends the sessions of the token, and removes the cookies.
func (p *portal) deleteSession(w http.ResponseWriter, r *http.Request) {
	if token, err := credential(r); err == nil {
		p.signOut(token)
	}
	http.SetCookie(w, cookie(tokenCookie, ""))
	http.SetCookie(w, cookie(namespaceCookie, ""))
	w.WriteHeader(http.StatusNoContent)
}

// cookie returns a cookie that ends with the browser; without a value, one that removes it.
func cookie(name, value string) *http.Cookie {
	c := &http.Cookie{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

// whoAmI is the answer about who the user is.
type whoAmI struct {
	User      string `json:"user"`
	Namespace string `json:"namespace,omitempty"`
	// SignedIn reports whether the user has signed in on the page: a user whom a proxy signs in cannot sign out here.
	SignedIn bool `json:"signedIn,omitempty"`
	// Window is what the page sends in windowHeader.
	Window string `json:"window"`
}

func (p *portal) session(w http.ResponseWriter, r *http.Request, s *session) {
	answer(w, whoAmI{s.user, s.key.namespace, r.Header.Get("Authorization") == "", s.window()})
}

// refuse answers a request without a session. ask lists what the page can ask the user for.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	code, ask := http.StatusServiceUnavailable, ""
	switch {
	case errors.Is(err, errNoToken), errors.Is(err, errToken):
		code = http.StatusUnauthorized
		if r.Header.Get("Authorization") == "" { // otherwise a proxy has sent it, and would send it again
			ask = askToken
		}
	case apierrors.IsForbidden(err):
		code, ask = http.StatusForbidden, askNamespace
	case errors.Is(err, errOtherWindow):
		code, ask = http.StatusConflict, askReload
	case errors.Is(err, errFull), errors.Is(err, errOfUser):
		w.Header().Set("Retry-After", "30")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error(), "ask": ask}) // who has left does not read it
}
