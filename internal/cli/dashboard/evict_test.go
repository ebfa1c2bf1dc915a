// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"testing"
)

// A user who may read nothing gets no session, so the one of another user, whose window is in the background, does not end for it, and keeps what it has recorded.
func TestAUserWithoutRightsEndsNoSession(t *testing.T) {
	outsider := newPerson(t, "outsider")
	outsider.denied = true
	h := newHouse(t, 1, map[string]*person{"alice": newPerson(t, "alice", rollOf("agent").Objects(t)...), "outsider": outsider})
	if code := h.from(t.Context(), "192.0.2.1:1000", "alice"); code != http.StatusOK {
		t.Fatal(code)
	}
	if code := h.from(t.Context(), "192.0.2.2:1000", "outsider"); code != http.StatusForbidden {
		t.Errorf("a user without rights is answered with %d", code)
	}
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	for _, s := range h.p.sessions {
		if s.user == "alice" {
			return
		}
	}
	t.Error("the session of alice was ended for a user who may read nothing")
}
