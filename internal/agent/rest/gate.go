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

// gate lets requests in. A browser is a way for any page to send requests to this machine, so what comes out of a page of another
// origin is refused, and so is a name that somebody has made to point here: whoever means this node calls it by its name.
type gate struct {
	host                       func(string) bool
	now                        func() time.Time
	origin                     *http.CrossOriginProtection
	requests, changes, reviews *rate.Limiter
}

func newGate(o *Options) *gate {
	limiter := func(perSecond int) *rate.Limiter { return rate.NewLimiter(rate.Limit(perSecond), 2*perSecond) }
	return &gate{
		host: o.Host, now: o.Now, origin: http.NewCrossOriginProtection(),
		requests: limiter(o.Limits.Requests), changes: limiter(o.Limits.Changes), reviews: limiter(o.Limits.Reviews),
	}
}

// check returns why a request is not let in.
func (g *gate) check(r *http.Request) *problem {
	if !g.host(hostOf(r.Host)) {
		return &problem{code: http.StatusMisdirectedRequest, message: "the Host header does not name this node: use the address that the agent listens on"}
	}
	if err := g.origin.Check(r); err != nil {
		return &problem{code: http.StatusForbidden, message: "a page of another origin may change nothing here"}
	}
	if !g.requests.AllowN(g.now(), 1) || isChange(r) && !g.changes.AllowN(g.now(), 1) {
		return tooMany()
	}
	// Only whole paths are taken, so that nobody is sent on to another one.
	if p := r.URL.Path; p == "" || p[0] != '/' || p != path.Clean(p) || r.Method == http.MethodConnect {
		return &problem{code: http.StatusNotFound, message: "there is nothing at this path: see /v2/openapi.json"}
	}
	return nil
}

func isChange(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

func tooMany() *problem {
	return &problem{code: http.StatusTooManyRequests, message: "too many requests: try again in a second"}
}

// hostOf is a Host header without its port and the brackets around an IPv6 address.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return host
	}
	return strings.Trim(header, "[]")
}

// IsLoopback is whether a host is this machine, by address or by the name that every machine gives itself.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
