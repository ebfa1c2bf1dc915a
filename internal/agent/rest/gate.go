// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// gate admits requests. Any web page can send requests to this machine through a browser, so requests from another
// origin are refused, and so are host names that an attacker resolves to this node (DNS rebinding).
//
// Requests are counted by the kind of caller: the owner of the node, users of the cluster, and anonymous callers. So
// requests without a valid token do not use up the quota of callers that have one.
type gate struct {
	host   func(string) bool
	now    func() time.Time
	origin *http.CrossOriginProtection
	// The quota of each kind of caller. Requests of users are counted after authentication. anonymous is for requests
	// that need no token, failed for requests that need one and have no valid one.
	owner, users, anonymous, failed quota
	// reviews limits reviews of tokens that were valid before, unknownReviews those of all others.
	reviews, unknownReviews *rate.Limiter
	knownTokens             knownTokens
}

// quota limits requests, and requests that change something.
type quota struct{ requests, changes *rate.Limiter }

func newGate(o *Options) *gate {
	limiter := func(perSecond int) *rate.Limiter { return rate.NewLimiter(rate.Limit(perSecond), 2*perSecond) }
	turns := func() quota { return quota{limiter(o.Limits.Requests), limiter(o.Limits.Changes)} }
	return &gate{
		host: o.Host, now: o.Now, origin: http.NewCrossOriginProtection(),
		owner: turns(), users: turns(), anonymous: turns(), failed: turns(),
		reviews: limiter(o.Limits.Reviews), unknownReviews: limiter(o.Limits.Reviews),
	}
}

// allow counts a request, and refuses it if the quota is used up.
func (g *gate) allow(p quota, r *http.Request) *problem {
	if !p.requests.AllowN(g.now(), 1) || isChange(r) && !p.changes.AllowN(g.now(), 1) {
		return tooMany()
	}
	return nil
}

// allowReview counts a token review.
func (g *gate) allowReview(token string) *problem {
	turns := g.unknownReviews
	if g.knownTokens.has(token) {
		turns = g.reviews
	}
	if !turns.AllowN(g.now(), 1) {
		return tooMany()
	}
	return nil
}

// check returns why a request is refused.
func (g *gate) check(r *http.Request) *problem {
	if !g.host(hostOf(r.Host)) {
		return &problem{code: http.StatusMisdirectedRequest, message: "the Host header does not name this node: use the address that the agent listens on"}
	}
	if err := g.origin.Check(r); err != nil {
		return &problem{code: http.StatusForbidden, message: "cross-origin requests must not change anything"}
	}
	// Only clean paths are accepted, so that no request is redirected.
	if p := r.URL.Path; p == "" || p[0] != '/' || p != path.Clean(p) || r.Method == http.MethodConnect {
		return &problem{code: http.StatusNotFound, message: "there is nothing at this path: see /v2/openapi.json"}
	}
	return nil
}

func isChange(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

func tooMany() *problem {
	return &problem{code: http.StatusTooManyRequests, message: "too many requests: try again in a second"}
}

// hostOf returns a Host header without its port and without the brackets of an IPv6 address.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return host
	}
	return strings.Trim(header, "[]")
}

// IsLoopback reports whether a host is this machine: a loopback address, or localhost.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
