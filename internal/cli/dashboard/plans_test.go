// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"testing"
)

// Plans are large, so few are served at a time in all sessions together; other requests are served meanwhile.
func TestPlansOfAllSessions(t *testing.T) {
	h := newHouse(t, 2, map[string]*person{"a": newPerson(t, "alice", roll().Objects(t)...)})
	code := func(method, path, body string) int {
		answer := h.send(h.request(t.Context(), method, path, body, "a"))
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	if got := code(http.MethodPost, applyPath, "{}"); got != http.StatusBadRequest {
		t.Errorf("a plan is answered with %d", got)
	}
	for range mostPlansOfAll {
		h.p.plans <- struct{}{} // plans of other sessions
	}
	if got := code(http.MethodPost, applyPath, "{}"); got != http.StatusServiceUnavailable {
		t.Errorf("one plan more is answered with %d", got)
	}
	if got := code(http.MethodGet, "/api/sets", ""); got != http.StatusOK {
		t.Errorf("the list is answered with %d", got)
	}
}
