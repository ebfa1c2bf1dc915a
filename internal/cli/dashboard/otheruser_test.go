// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"testing"

	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// A browser has one cookie for all of its windows. If another user signs in, or another namespace is chosen, in one of them, the others still name the first user and show what was read
// for that user: they get nothing of the second, and change nothing as the second, before they are loaded again.
func TestAWindowOfAnotherUser(t *testing.T) {
	people := map[string]*person{}
	for token, name := range map[string]string{"tok-a": "alice", "tok-a2": "alice", "tok-b": "bob"} {
		people[token] = newPerson(t, name, rollOf("agent").Objects(t)...)
		people[token].HonourDryRun(t)
		if err := people[token].Dynamic.Tracker().Create(policies.Resource(), fakecluster.Object(t, rolloutPolicy), "default"); err != nil {
			t.Fatal(err)
		}
	}
	h := newHouse(t, 5, people)
	var alice struct{ User, Window string }
	if h.read(h.request(t.Context(), http.MethodGet, "/api/session", "", "tok-a"), &alice); alice.User != "alice" || alice.Window == "" {
		t.Fatalf("the session is %+v", alice)
	}
	for name, c := range map[string]struct {
		token, namespace, method, path, body string
		code                                 int
		ask                                  string
	}{
		"the same user":       {"tok-a", "", http.MethodGet, "/api/sets", "", http.StatusOK, ""},
		"a renewed token":     {"tok-a2", "", http.MethodGet, "/api/sets", "", http.StatusOK, ""},
		"another user":        {"tok-b", "", http.MethodGet, "/api/sets", "", http.StatusConflict, askReload},
		"a stream":            {"tok-b", "", http.MethodGet, "/api/sets/stream", "", http.StatusConflict, askReload},
		"another namespace":   {"tok-a", "default", http.MethodGet, "/api/sets", "", http.StatusConflict, askReload},
		"a change by another": {"tok-b", "", http.MethodPost, verbPath, `{"verb": "restart", "namespace": "default", "set": "ads/agent"}`, http.StatusConflict, askReload},
	} {
		r := h.request(t.Context(), c.method, c.path, c.body, c.token)
		r.Header.Set(windowHeader, alice.Window)
		if c.namespace != "" {
			r.AddCookie(&http.Cookie{Name: namespaceCookie, Value: c.namespace})
		}
		var got refusal
		if code := h.read(r, &got); code != c.code || got.Ask != c.ask {
			t.Errorf("%s: %d %+v, want %d %q", name, code, got, c.code, c.ask)
		}
	}
	for _, action := range people["tok-b"].Dynamic.Actions() {
		if action.GetVerb() == "patch" {
			t.Errorf("the window of alice has changed something as bob: %v", action)
		}
	}
}
