// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

const testHost = "everynode.example"

// person is a user with a token, and the part of the cluster that the token may see.
type person struct {
	*fakecluster.Cluster
	mu sync.Mutex
	// name is empty once the token has expired.
	name    string
	problem error
	// denied is whether the rights are those for one namespace, and for nodes.
	denied bool
}

func (u *person) set(change func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change()
}

func newPerson(t *testing.T, name string, objects ...runtime.Object) *person {
	t.Helper()
	u := &person{Cluster: fakecluster.New(t, objects...), name: name}
	u.Kubernetes.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.problem != nil {
			return true, nil, u.problem
		}
		if u.name == "" {
			return true, nil, apierrors.NewUnauthorized("the token has expired")
		}
		return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: u.name}}}, nil
	})
	u.Kubernetes.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		review, _ := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		allowed := !u.denied || review.Spec.ResourceAttributes.Resource == "nodes" || review.Spec.ResourceAttributes.Namespace == "default"
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}}, nil
	})
	return u
}

// house is a portal behind TLS, with the people who have tokens for it.
type house struct {
	t      *testing.T
	p      *portal
	web    *httptest.Server
	people map[string]*person

	mu  sync.Mutex
	now time.Time
}

func newHouse(t *testing.T, most int, people map[string]*person) *house {
	t.Helper()
	h := &house{t: t, people: people, now: fakecluster.Now()}
	stranger := newPerson(t, "")
	o := *stranger.Options
	o.Now = func() time.Time {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.now
	}
	ctx, cancel := context.WithCancel(t.Context())
	a := &inCluster{Options: &o, verbs: program, hosts: []string{testHost, "localhost:8443"}, sessions: most}
	h.p = a.portal(ctx, func(token string) (*options.Clients, error) {
		if of := people[token]; of != nil {
			return of.Options.Given, nil
		}
		return stranger.Options.Given, nil
	})
	h.p.pace = 5 * time.Millisecond
	h.web = httptest.NewUnstartedServer(h.p.handler())
	h.web.EnableHTTP2 = true
	h.web.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	h.web.StartTLS()
	t.Cleanup(func() {
		cancel()
		h.web.Close()
		h.p.running.Wait()
	})
	return h
}

func (h *house) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// request is one of the page, with the token in a cookie.
func (h *house) request(ctx context.Context, method, path, body, token string) *http.Request {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, h.web.URL+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Host = testHost
	r.Header.Set(header, "1")
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.AddCookie(&http.Cookie{Name: tokenCookie, Value: token})
	}
	return r
}

func (h *house) send(r *http.Request) *http.Response {
	h.t.Helper()
	answer, err := h.web.Client().Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer
}

// refusal is the answer to a request without a session.
type refusal struct{ Error, Ask string }

func (h *house) read(r *http.Request, into any) int {
	h.t.Helper()
	answer := h.send(r)
	defer func() { _ = answer.Body.Close() }()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		h.t.Fatalf("%s: %s, %v", r.URL.Path, answer.Status, err)
	}
	return answer.StatusCode
}

// follow opens a stream, and returns its first message and a function that waits for its end.
func (h *house) follow(path, token string) (first string, ended func()) {
	h.t.Helper()
	answer := h.send(h.request(h.t.Context(), http.MethodGet, path, "", token)) //nolint:bodyclose // ended closes it
	if answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2 {
		h.t.Fatalf("%s: %s by %s", path, answer.Status, answer.Proto)
	}
	lines := bufio.NewReaderSize(answer.Body, 1<<20)
	first, err := lines.ReadString('\n')
	if err != nil {
		h.t.Fatal(err)
	}
	return first, func() {
		h.t.Helper()
		_, _ = io.Copy(io.Discard, lines) // until the server ends it; otherwise the test ends by its time limit
		_ = answer.Body.Close()
	}
}

func rollOf(name string) fakecluster.Roll {
	return fakecluster.Roll{Name: name, Advanced: true, Letters: "uo"}
}

func TestWhoIsLetIn(t *testing.T) {
	h := newHouse(t, 5, map[string]*person{"tok-a": newPerson(t, "alice", rollOf("of-alice").Objects(t)...)})
	for name, c := range map[string]struct {
		change func(r *http.Request)
		code   int
		ask    string
	}{
		"the page":                         {func(*http.Request) {}, http.StatusOK, ""},
		"the port of TLS":                  {func(r *http.Request) { r.Host = testHost + ":443" }, http.StatusOK, ""},
		"another name of it":               {func(r *http.Request) { r.Host = "LOCALHOST:8443" }, http.StatusOK, ""},
		"the same origin":                  {func(r *http.Request) { r.Header.Set("Origin", "https://"+testHost) }, http.StatusOK, ""},
		"a proxy":                          {func(r *http.Request) { r.Header.Del("Cookie"); r.Header.Set("Authorization", "bearer tok-a") }, http.StatusOK, ""},
		"no token":                         {func(r *http.Request) { r.Header.Del("Cookie") }, http.StatusUnauthorized, askToken},
		"a wrong token":                    {func(r *http.Request) { r.Header.Set("Cookie", tokenCookie+"=x") }, http.StatusUnauthorized, askToken},
		"a token that is none":             {func(r *http.Request) { r.Header.Set("Cookie", tokenCookie+`="a b"`) }, http.StatusUnauthorized, askToken},
		"a cookie that others can set":     {func(r *http.Request) { r.Header.Set("Cookie", "everynode-dashboard=tok-a") }, http.StatusUnauthorized, askToken},
		"two cookies":                      {func(r *http.Request) { r.AddCookie(&http.Cookie{Name: tokenCookie, Value: "x"}) }, http.StatusUnauthorized, askToken},
		"a proxy with a wrong token":       {func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, http.StatusUnauthorized, ""},
		"a proxy with a password":          {func(r *http.Request) { r.SetBasicAuth("alice", "tok-a") }, http.StatusUnauthorized, ""},
		"a token with a second header":     {func(r *http.Request) { r.Header.Set("Authorization", "Bearer tok-a, tok-b") }, http.StatusUnauthorized, ""},
		"two tokens":                       {func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer tok-a", "Bearer x"} }, http.StatusUnauthorized, ""},
		"only the name of a user":          {func(r *http.Request) { r.Header.Del("Cookie"); r.Header.Set("X-Forwarded-User", "alice") }, http.StatusUnauthorized, askToken},
		"a user to impersonate":            {func(r *http.Request) { r.Header.Del("Cookie"); r.Header.Set("Impersonate-User", "alice") }, http.StatusUnauthorized, askToken},
		"a name that points here":          {func(r *http.Request) { r.Host = "evil.example" }, http.StatusMisdirectedRequest, ""},
		"another port":                     {func(r *http.Request) { r.Host = testHost + ":8443" }, http.StatusMisdirectedRequest, ""},
		"a name that ends with ours":       {func(r *http.Request) { r.Host = "evil-" + testHost }, http.StatusMisdirectedRequest, ""},
		"a host from a proxy's header":     {func(r *http.Request) { r.Host = "evil.example"; r.Header.Set("X-Forwarded-Host", testHost) }, http.StatusMisdirectedRequest, ""},
		"an address":                       {func(r *http.Request) { r.Host = "127.0.0.1" }, http.StatusMisdirectedRequest, ""},
		"another origin":                   {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, http.StatusForbidden, ""},
		"our origin without TLS":           {func(r *http.Request) { r.Header.Set("Origin", "http://"+testHost) }, http.StatusForbidden, ""},
		"a link from another site":         {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden, ""},
		"another host of the domain":       {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden, ""},
		"a form, which has no own header":  {func(r *http.Request) { r.Header.Del(header) }, http.StatusForbidden, ""},
		"a form that goes through a proxy": {func(r *http.Request) { r.Header.Del(header); r.Header.Set("Authorization", "Bearer tok-a") }, http.StatusForbidden, ""},
	} {
		r := h.request(t.Context(), http.MethodGet, "/api/session", "", "tok-a")
		c.change(r)
		var got struct {
			refusal
			whoAmI
		}
		if code := h.read(r, &got); code != c.code || got.Ask != c.ask || got.SignedIn != (c.code == http.StatusOK && name != "a proxy") || (got.User == "alice") != (code == http.StatusOK) || (got.Error == "") != (code == http.StatusOK) {
			t.Errorf("%s: %d %+v, want %d %q", name, code, got, c.code, c.ask)
		}
	}
	for path, code := range map[string]int{"/": http.StatusOK, "/app.js": http.StatusOK, "/api/sets": http.StatusUnauthorized, "/api/none": http.StatusUnauthorized} {
		answer := h.send(h.request(t.Context(), http.MethodGet, path, "", ""))
		_ = answer.Body.Close()
		if got := answer.Header.Get("Content-Security-Policy"); answer.StatusCode != code || got != policy || answer.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("%s: %s with the policy %q", path, answer.Status, got)
		}
	}
	probe, err := h.web.Client().Get(h.web.URL + healthPath)
	if err != nil || probe.StatusCode != http.StatusOK {
		t.Errorf("a probe: %v, %v", probe, err)
	}
	_ = probe.Body.Close()
}

// Two users with different rights see different things, and nothing of each other.
func TestUsersAreApart(t *testing.T) {
	h := newHouse(t, 5, map[string]*person{
		"tok-a": newPerson(t, "alice", rollOf("of-alice").Objects(t)...), "tok-b": newPerson(t, "bob", rollOf("of-bob").Objects(t)...),
	})
	const ofAlice = "?namespace=default&set=ads/of-alice"
	first, _ := h.follow("/api/set/stream"+ofAlice, "tok-a")
	if !strings.Contains(first, "node-1") {
		t.Fatalf("the first message for alice is %s", first)
	}
	for token, own := range map[string]string{"tok-a": "of-alice", "tok-b": "of-bob"} {
		var m message
		h.read(h.request(t.Context(), http.MethodGet, "/api/sets", "", token), &m)
		if rows := items[row](t, m); len(rows) != 1 || rows[0].Key != "default/ads/"+own {
			t.Errorf("with %s the list is %+v", token, rows)
		}
	}
	for _, path := range []string{"/api/set", "/api/set/stream", "/api/set/past"} {
		var got refusal
		if code := h.read(h.request(t.Context(), http.MethodGet, path+ofAlice, "", "tok-b"), &got); code != http.StatusNotFound {
			t.Errorf("bob gets %d %+v from %s of alice", code, got, path)
		}
	}
	for body, want := range map[string]string{
		`{"verb": "plan", "namespace": "default", "set": "ads/of-alice", "flags": {"partition": "1"}}`: "there is no ads/of-alice",
		`{"verb": "pause", "namespace": "default", "set": "ads/of-alice"}`:                             "there is no ads/of-alice",
	} {
		var got outcome
		if h.read(h.request(t.Context(), http.MethodPost, "/api/verb", body, "tok-b"), &got); !strings.Contains(got.Error, want) || got.Data != nil || got.Output != "" {
			t.Errorf("bob: %s ends with %+v", body, got)
		}
	}
	for _, action := range append(h.people["tok-a"].Dynamic.Actions(), h.people["tok-a"].Kubernetes.Actions()...) {
		if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" && !strings.HasPrefix(action.GetResource().Resource, "selfsubject") {
			t.Errorf("with the token of alice there was %s of %s", verb, action.GetResource().Resource)
		}
	}
}

// A stream ends with the token and with the rights that it was begun with, although its watches go on.
func TestASessionEndsWithItsToken(t *testing.T) {
	alice := newPerson(t, "alice", rollOf("agent").Objects(t)...)
	bob := newPerson(t, "bob", rollOf("agent").Objects(t)...)
	h := newHouse(t, 5, map[string]*person{"tok-a": alice, "tok-b": bob})
	_, endedA := h.follow("/api/sets/stream", "tok-a")
	_, endedB := h.follow("/api/sets/stream", "tok-b")
	var got refusal
	alice.set(func() { alice.name = "" })
	endedA()
	if code := h.read(h.request(t.Context(), http.MethodGet, "/api/sets", "", "tok-a"), &got); code != http.StatusUnauthorized || got.Ask != askToken || !strings.Contains(got.Error, "expired") {
		t.Errorf("with a token that has expired: %d %+v", code, got)
	}
	bob.set(func() { bob.denied = true })
	endedB()
	r := h.request(t.Context(), http.MethodGet, "/api/sets", "", "tok-b")
	if code := h.read(r, &got); code != http.StatusForbidden || got.Ask != askNamespace || !strings.Contains(got.Error, `"list" on "pods"`) {
		t.Errorf("without the rights: %d %+v", code, got)
	}
	r = h.request(t.Context(), http.MethodGet, "/api/session", "", "tok-b")
	r.AddCookie(&http.Cookie{Name: namespaceCookie, Value: "default"})
	var who struct{ User, Namespace string }
	if code := h.read(r, &who); code != http.StatusOK || who.User != "bob" || who.Namespace != "default" {
		t.Errorf("in the namespace for which there are rights: %d %+v", code, who)
	}
}

// While the cluster does not answer, a session goes on for some time, so that a page survives a restart of the API server.
func TestTheClusterDoesNotAnswer(t *testing.T) {
	alice := newPerson(t, "alice", rollOf("agent").Objects(t)...)
	h := newHouse(t, 5, map[string]*person{"tok-a": alice})
	_, ended := h.follow("/api/sets/stream", "tok-a")
	reviews := func() (n int) {
		for _, a := range alice.Kubernetes.Actions() {
			if a.GetResource().Resource == "selfsubjectreviews" {
				n++
			}
		}
		return n
	}
	checks := func(n int) {
		for before := reviews(); reviews() < before+n; {
			if !wait(t.Context(), time.Millisecond, nil) {
				t.Fatal("the token is not checked again")
			}
		}
	}
	checks(1) // the time counts from the first one
	alice.set(func() { alice.problem = errors.New("dial tcp 192.0.2.1:443: connection refused") })
	h.pass(unverifiedFor - time.Second)
	checks(3)
	var who struct{ User string }
	if code := h.read(h.request(t.Context(), http.MethodGet, "/api/session", "", "tok-a"), &who); code != http.StatusOK || who.User != "alice" {
		t.Errorf("meanwhile: %d %+v", code, who)
	}
	h.pass(2 * time.Second)
	ended()
	var got refusal
	code := h.read(h.request(t.Context(), http.MethodGet, "/api/sets", "", "tok-a"), &got)
	if code != http.StatusServiceUnavailable || got.Error != errNoCluster.Error() {
		t.Errorf("after it: %d %+v", code, got)
	}
}

func TestSignInAndOut(t *testing.T) {
	h := newHouse(t, 5, map[string]*person{"tok-a": newPerson(t, "alice", rollOf("agent").Objects(t)...)})
	for body, c := range map[string]struct {
		code    int
		cookies int
	}{
		`{"token": "tok-a"}`:                                              {http.StatusBadRequest, 0}, // it was in the address, which another site may have chosen
		`{"token": "tok-a", "namespace": ""}`:                             {http.StatusNoContent, 2},
		`{"token": "tok-a", "namespace": "default"}`:                      {http.StatusNoContent, 2},
		`{"namespace": "default"}`:                                        {http.StatusNoContent, 1},
		`{"token": "wrong", "namespace": ""}`:                             {http.StatusUnauthorized, 0},
		`{"token": "tok-a\nX: y", "namespace": ""}`:                       {http.StatusUnauthorized, 0},
		`{"token": "` + strings.Repeat("a", 4000) + `", "namespace": ""}`: {http.StatusUnauthorized, 0},
		`{"token": "tok-a", "namespace": "../kube-system"}`:               {http.StatusBadRequest, 0},
		`token=tok-a`: {http.StatusBadRequest, 0},
		`{"token": "` + strings.Repeat("a", largestBody) + `"}`: {http.StatusRequestEntityTooLarge, 0},
	} {
		answer := h.send(h.request(t.Context(), http.MethodPost, "/api/session", body, ""))
		_ = answer.Body.Close()
		if answer.StatusCode != c.code || len(answer.Cookies()) != c.cookies {
			t.Errorf("%.60s: %s with %v", body, answer.Status, answer.Cookies())
		}
		for _, cookie := range answer.Cookies() {
			if !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Domain != "" || !strings.HasPrefix(cookie.Name, "__Host-") {
				t.Errorf("%.60s: the cookie is %s", body, cookie)
			}
		}
	}
	_, ended := h.follow("/api/sets/stream", "tok-a")
	answer := h.send(h.request(t.Context(), http.MethodDelete, "/api/session", "", "tok-a"))
	_ = answer.Body.Close()
	ended()
	if cookies := answer.Cookies(); answer.StatusCode != http.StatusNoContent || len(cookies) != 2 || cookies[0].MaxAge >= 0 || cookies[0].Value != "" {
		t.Errorf("signing out: %s with %v", answer.Status, answer.Cookies())
	}
}

// A user cannot take the places of the others, and who left makes room.
func TestPlacesOfUsers(t *testing.T) {
	people := map[string]*person{}
	for _, token := range []string{"a1", "a2", "a3", "a4"} {
		people[token] = newPerson(t, "alice", rollOf("agent").Objects(t)...)
	}
	for _, token := range []string{"b1", "c1"} {
		people[token] = newPerson(t, token, rollOf("agent").Objects(t)...)
	}
	h := newHouse(t, 4, people)
	for _, token := range []string{"a1", "a2", "a3", "b1"} {
		h.follow("/api/sets/stream", token)
	}
	for token, want := range map[string]error{"a4": errOfUser, "c1": errFull} {
		var got refusal
		if code := h.read(h.request(t.Context(), http.MethodGet, "/api/session", "", token), &got); code != http.StatusServiceUnavailable || got.Error != want.Error() {
			t.Errorf("%s: %d %+v, want %v", token, code, got, want)
		}
	}
	_, ended := h.follow("/api/sets/stream", "a1")
	answer := h.send(h.request(t.Context(), http.MethodDelete, "/api/session", "", "a1"))
	_ = answer.Body.Close()
	ended()
	var who struct{ User string }
	if code := h.read(h.request(t.Context(), http.MethodGet, "/api/session", "", "a4"), &who); code != http.StatusOK {
		t.Errorf("a place is free: %d", code)
	}
	// a4 has no requests any more, so c1 may take its place, and no other one.
	if code := h.read(h.request(t.Context(), http.MethodGet, "/api/session", "", "c1"), &who); code != http.StatusOK || who.User != "c1" {
		t.Errorf("the place of an idle session: %d %+v", code, who)
	}
}

// A session without requests ends; one with a stream does not.
func TestIdleSessionsEnd(t *testing.T) {
	h := newHouse(t, 5, map[string]*person{
		"tok-a": newPerson(t, "alice", rollOf("agent").Objects(t)...), "tok-b": newPerson(t, "bob", rollOf("agent").Objects(t)...),
	})
	h.follow("/api/sets/stream", "tok-a")
	var who struct{ User string }
	h.read(h.request(t.Context(), http.MethodGet, "/api/session", "", "tok-b"), &who)
	h.pass(idleFor)
	for count := 2; count > 1; {
		if !wait(t.Context(), time.Millisecond, nil) {
			t.Fatal("the session does not end")
		}
		h.p.mu.Lock()
		count = len(h.p.sessions)
		for _, s := range h.p.sessions {
			if count == 1 && s.user != "alice" {
				t.Errorf("the session of %s is left", s.user)
			}
		}
		h.p.mu.Unlock()
	}
}

// A user who has many windows open takes no place of another.
func TestWindowsOfUsers(t *testing.T) {
	h := newHouse(t, 5, map[string]*person{
		"tok-a": newPerson(t, "alice", rollOf("agent").Objects(t)...), "tok-b": newPerson(t, "bob", rollOf("agent").Objects(t)...),
	})
	for range mostViewers {
		h.follow("/api/sets/stream", "tok-a")
	}
	var got refusal
	if code := h.read(h.request(t.Context(), http.MethodGet, "/api/sets/stream", "", "tok-a"), &got); code != http.StatusServiceUnavailable || !strings.Contains(got.Error, "close other windows") {
		t.Errorf("one window too many: %d %+v", code, got)
	}
	var who whoAmI
	if code := h.read(h.request(t.Context(), http.MethodGet, "/api/session", "", "tok-a"), &who); code != http.StatusOK {
		t.Errorf("other requests of alice: %d", code)
	}
	h.follow("/api/sets/stream", "tok-b")
}

// What a user may not read is not missing without a word.
func TestWhatIsLeftOutIsShown(t *testing.T) {
	alice := newPerson(t, "alice", rollOf("agent").Objects(t)...)
	alice.Kubernetes.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review, _ := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		denied := review.Spec.ResourceAttributes.Group == "apps.kruise.io"
		return denied, &authorizationv1.SelfSubjectAccessReview{}, nil
	})
	h := newHouse(t, 5, map[string]*person{"tok-a": alice})
	var m message
	h.read(h.request(t.Context(), http.MethodGet, "/api/sets", "", "tok-a"), &m)
	if head := part[listHead](t, m, "head"); len(m.Items) != 0 || !strings.Contains(head.Unread, "daemonsets.apps.kruise.io are left out") {
		t.Errorf("the list has %d sets, and says %+v", len(m.Items), head)
	}
}

// deadlines records the deadlines of what is written.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// A deadline that passes ends a stream of HTTP/2 also while nothing is written, so there is none while a stream waits.
func TestAStreamThatWaitsHasNoDeadline(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := &hub{ctx: ctx, current: &frame{}, next: make(chan struct{})}
	cancel()
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	h.follow(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if len(w.set) != 2 || w.set[0].IsZero() || !w.set[1].IsZero() || !strings.HasPrefix(w.Body.String(), "data: ") {
		t.Errorf("the deadlines are %v after %q", w.set, w.Body)
	}
}
