// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/cli/options"
)

const testPort = "8790"

// protected is a server that has one page, behind its guard.
func protected() (*guard, http.Handler) {
	g := newGuard(testPort)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/session", g.fromPage(g.login))
	mux.HandleFunc("GET /api/sets", g.data(func(w http.ResponseWriter, _ *http.Request) { answer(w, "data") }))
	mux.HandleFunc("POST /api/verb", g.data(func(http.ResponseWriter, *http.Request) {}))
	return g, g.protect(mux)
}

// request is one of a browser in which the page is open.
func pageRequest(g *guard, method, path, body string) *http.Request {
	r := httptest.NewRequest(method, "http://127.0.0.1:"+testPort+path, strings.NewReader(body))
	r.Header.Set(header, "1")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.AddCookie(&http.Cookie{Name: g.cookie(), Value: g.session})
	return r
}

func TestOnlyThePageGetsData(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *http.Request)
		code   int
	}{
		"the page":                          {func(*http.Request) {}, http.StatusOK},
		"by localhost":                      {func(r *http.Request) { r.Host = "localhost:8790" }, http.StatusOK},
		"by IPv6":                           {func(r *http.Request) { r.Host = "[::1]:8790" }, http.StatusOK},
		"a browser without Sec-Fetch-Site":  {func(r *http.Request) { r.Header.Del("Sec-Fetch-Site") }, http.StatusOK},
		"the same origin":                   {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:8790") }, http.StatusOK},
		"a name that points here":           {func(r *http.Request) { r.Host = "evil.example:8790" }, http.StatusMisdirectedRequest},
		"a name that ends with ours":        {func(r *http.Request) { r.Host = "x.localhost:8790" }, http.StatusMisdirectedRequest},
		"another port":                      {func(r *http.Request) { r.Host = "127.0.0.1:80" }, http.StatusMisdirectedRequest},
		"no port":                           {func(r *http.Request) { r.Host = "127.0.0.1" }, http.StatusMisdirectedRequest},
		"another origin":                    {func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		"an opaque origin":                  {func(r *http.Request) { r.Header.Set("Origin", "null") }, http.StatusForbidden},
		"the origin of another port":        {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:80") }, http.StatusForbidden},
		"a link from another site":          {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"a page of another port":            {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden},
		"a form, which sends no own header": {func(r *http.Request) { r.Header.Del(header) }, http.StatusForbidden},
		"no session":                        {func(r *http.Request) { r.Header.Del("Cookie") }, http.StatusUnauthorized},
		"a session of another program":      {func(r *http.Request) { r.Header.Set("Cookie", cookiePrefix+testPort+"=x") }, http.StatusUnauthorized},
	} {
		g, handler := protected()
		r := pageRequest(g, http.MethodGet, "/api/sets", "")
		c.change(r)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != c.code || (w.Code == http.StatusOK) != strings.Contains(w.Body.String(), "data") {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, c.code)
		}
		for key, value := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "",
		} {
			if got := w.Header().Get(key); got != value {
				t.Errorf("%s: %s is %q, want %q", name, key, got, value)
			}
		}
		csp := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none'; script-src 'self'; style-src 'self';") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: the policy is %q", name, csp)
		}
	}
}

func TestLogin(t *testing.T) {
	g, handler := protected()
	for name, c := range map[string]struct {
		body   string
		change func(r *http.Request)
		code   int
	}{
		"the token":         {`{"token": "` + g.token + `"}`, nil, http.StatusNoContent},
		"another one":       {`{"token": "x"}`, nil, http.StatusUnauthorized},
		"none":              {`{}`, nil, http.StatusUnauthorized},
		"the session":       {`{"token": "` + g.session + `"}`, nil, http.StatusUnauthorized},
		"no JSON":           {"token=" + g.token, nil, http.StatusBadRequest},
		"a form":            {`{"token": "` + g.token + `"}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusBadRequest},
		"from another site": {`{"token": "` + g.token + `"}`, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		"by another host":   {`{"token": "` + g.token + `"}`, func(r *http.Request) { r.Host = "evil.example:8790" }, http.StatusMisdirectedRequest},
	} {
		r := pageRequest(g, http.MethodPost, "/api/session", c.body)
		r.Header.Del("Cookie")
		if c.change != nil {
			c.change(r)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		cookies := w.Result().Cookies()
		if w.Code != c.code || (len(cookies) == 1) != (c.code == http.StatusNoContent) {
			t.Errorf("%s: %d and %d cookies, want %d", name, w.Code, len(cookies), c.code)
		}
		for _, cookie := range cookies {
			if cookie.Name != g.cookie() || cookie.Value != g.session || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Value == g.token {
				t.Errorf("%s: the cookie is %s", name, cookie)
			}
		}
	}
	if other := newGuard(testPort); len(g.token) != 43 || other.token == g.token || other.session == g.session {
		t.Errorf("tokens are %q and %q", g.token, other.token)
	}
}

func TestLimits(t *testing.T) {
	g, handler := protected()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, pageRequest(g, http.MethodPost, "/api/session", strings.Repeat("x", largestBody+1)))
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that is too large: %d", w.Code)
	}
	places, inside, leave := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	next := limit(places, func(http.ResponseWriter, *http.Request) { inside <- struct{}{}; <-leave })
	go next(httptest.NewRecorder(), pageRequest(g, http.MethodGet, "/", ""))
	<-inside
	w = httptest.NewRecorder()
	next(w, pageRequest(g, http.MethodGet, "/", ""))
	close(leave)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "close other windows") {
		t.Errorf("one too many: %d %s", w.Code, w.Body)
	}
}

// Who lets other machines reach the page writes why.
func TestListen(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:8790": "", "[::1]:0": "", "127.8.9.1:80": "", "localhost:8790": "",
		"0.0.0.0:8790": "--expose-because", ":8790": "--expose-because", "192.0.2.1:8790": "--expose-because", "example.com:8790": "--expose-because",
		"8790": "is not an address with a port",
	} {
		a := &asked{Options: &options.Options{}, listen: listen}
		err := a.check()
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || options.Code(err) != options.ExitUsage) {
			t.Errorf("%s: %v, want %q", listen, err, want)
		}
	}
	a := &asked{Options: &options.Options{}, listen: "192.0.2.1:8790", expose: "a test"}
	if err := a.check(); err != nil {
		t.Error(err)
	}
	a.listen = "example.com:8790"
	if err := a.check(); err == nil {
		t.Error("a name was accepted, which may be made to point anywhere")
	}
}
