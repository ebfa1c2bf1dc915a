// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

const (
	// header must be in every request for data: a page of another origin cannot send it without a preflight, which is never answered.
	header = "X-Everynode-Dashboard"
	// cookiePrefix is followed by the port: browsers send cookies to all ports of a host.
	cookiePrefix = "everynode-dashboard-"
	// largestBody is the maximum size of a request, largestVerb that of one with a rollout policy, and largestPlan that of one with a plan: the plan for a node has
	// about 200 bytes.
	largestBody = 16 << 10
	largestVerb = 4 << 20
	largestPlan = 32 << 20
	// largestPolicy is the maximum size of a rollout policy: the API server stores no larger objects than 1.5 MiB. As JSON it is larger.
	largestPolicy = 1 << 20
	// mostViewers is the maximum number of streams, mostRequests that of other requests at a time.
	mostViewers  = 32
	mostRequests = 16
	// applyPath takes requests with a plan, verbPath takes other verbs.
	applyPath = "/api/apply"
	verbPath  = "/api/verb"
)

// policy is the Content-Security-Policy: nothing inline, nothing from elsewhere, no text as markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// gate rejects requests that do not come from the page.
type gate struct {
	// scheme is the scheme of the page's URL.
	scheme string
	// ownHost reports whether a Host header names the dashboard; elsewhere is the response if it does not.
	ownHost   func(host string) bool
	elsewhere string
}

// places are the requests that are served to one user at a time.
type places struct {
	viewers, requests chan struct{}
}

func newPlaces() places {
	return places{make(chan struct{}, mostViewers), make(chan struct{}, mostRequests)}
}

// guard decides which requests are answered by the dashboard of one user.
type guard struct {
	gate
	// token is in the URL that is printed, session in the cookie that it is exchanged for.
	token, session string
	port           string
}

func newGuard(port string) *guard {
	g := &guard{token: secret(), session: secret(), port: port}
	g.gate = gate{scheme: "http", ownHost: g.isAddress, elsewhere: "this address is not one of the dashboard: use the URL that it has printed"}
	return g
}

// secret returns 256 random bits.
func secret() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // it never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}

// same compares secrets without a difference in time.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// protect sets the headers of every answer, and rejects requests that were meant for another host: a name of
// another site that resolves to this host (DNS rebinding).
func (g *gate) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if !g.ownHost(r.Host) {
			fail(w, http.StatusMisdirectedRequest, g.elsewhere)
			return
		}
		if r.URL.Path == applyPath || r.URL.Path == verbPath {
			next.ServeHTTP(w, r) // its body is read when it is known who sends it
			return
		}
		withBody(largestBody, next.ServeHTTP)(w, r)
	})
}

// withBody reads the body of a request first.
func withBody(largest int64, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := readBody(w, r, largest)
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has more than %d bytes", tooLarge.Limit))
			return
		}
		if err != nil {
			fail(w, http.StatusBadRequest, "the request cannot be read: "+err.Error())
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next(w, r)
	}
}

// readBody reads the body of a request, which must arrive soon. Later steps may take longer; an expired deadline would end the request, so it is removed,
// but not after a failure: the server would wait for the rest of the body without end before it answers.
func readBody(w http.ResponseWriter, r *http.Request, largest int64) ([]byte, error) {
	out := http.NewResponseController(w)
	// A server that cannot set a deadline has none.
	_ = out.SetReadDeadline(time.Now().Add(readPatience))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largest))
	if err == nil {
		_ = out.SetReadDeadline(time.Time{})
	}
	return body, err //nolint:wrapcheck // it says what is wrong
}

// isAddress reports whether the host of a request is an address, which no name server decides about, or localhost, with our port.
func (g *guard) isAddress(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil || port != g.port {
		return false
	}
	if name == "localhost" {
		return true
	}
	_, err = netip.ParseAddr(name)
	return err == nil
}

// data rejects requests for data that do not come from the page, or have no session.
func (g *guard) data(next http.HandlerFunc) http.HandlerFunc {
	return g.fromPage(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie(g.cookie())
		if err != nil || !same(cookie.Value, g.session) {
			fail(w, http.StatusUnauthorized, "there is no session: open the URL that the dashboard has printed")
			return
		}
		next(w, r)
	})
}

// fromPage rejects requests that another site has caused.
func (g *gate) fromPage(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
		switch {
		case origin != "" && origin != g.scheme+"://"+r.Host, site != "" && site != "same-origin":
			fail(w, http.StatusForbidden, "the request comes from another site")
		case r.Header.Get(header) == "":
			fail(w, http.StatusForbidden, "the header "+header+" is missing")
		default:
			next(w, r)
		}
	}
}

// limit rejects requests while too many are served.
func limit(places chan struct{}, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next(w, r)
		default:
			w.Header().Set("Retry-After", "5")
			fail(w, http.StatusServiceUnavailable, "the dashboard already serves as many requests as it may: close other windows of it")
		}
	}
}

func (g *guard) cookie() string { return cookiePrefix + g.port }

// login exchanges the token for the cookie.
func (g *guard) login(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		fail(w, http.StatusBadRequest, "the token is missing")
		return
	}
	if !same(body.Token, g.token) {
		fail(w, http.StatusUnauthorized, "the token is not the one of this dashboard: open the URL that it has printed")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: g.cookie(), Value: g.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.WriteHeader(http.StatusNoContent)
}

// fail answers with an error.
func fail(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// Who has left does not read it.
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text})
}
