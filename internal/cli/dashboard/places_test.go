// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"testing"
)

// The service accounts of one namespace, of which its owner can make any number, cannot take the places of all users.
func TestPlacesOfServiceAccounts(t *testing.T) {
	people := map[string]*person{"admin": newPerson(t, "admin", rollOf("agent").Objects(t)...)}
	for _, token := range []string{"s1", "s2", "s3"} {
		people[token] = newPerson(t, "system:serviceaccount:tenant:"+token, rollOf("agent").Objects(t)...)
	}
	h := newHouse(t, 4, people)
	h.follow("/api/sets/stream", "s1")
	h.follow("/api/sets/stream", "s2")
	var got refusal
	if code := h.read(h.request(t.Context(), http.MethodGet, "/api/session", "", "s3"), &got); code != http.StatusServiceUnavailable {
		t.Errorf("a third service account of the namespace got one of two places that are left: %d", code)
	}
	h.follow("/api/sets/stream", "admin")
}
