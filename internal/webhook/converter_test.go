// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestConversionsTakeTurns: large reviews, and those that do not say how large they are, are read a few at a time, and take no turns of small ones.
func TestConversionsTakeTurns(t *testing.T) {
	c := newConverter()
	c.turn = time.Millisecond
	post := func(length int64) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, PathConvert, strings.NewReader("{}"))
		r.ContentLength = length
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w.Code
	}
	for range largeAtOnce {
		c.large <- struct{}{}
	}
	for _, length := range []int64{-1, smallReview + 1} {
		if code := post(length); code != http.StatusServiceUnavailable {
			t.Errorf("while all turns are taken, a review of %d bytes is answered %d", length, code)
		}
	}
	if code := post(2); code != http.StatusBadRequest { // it has no request
		t.Errorf("a small review is answered %d", code)
	}
	<-c.large
	for range 3 { // each gives its turn back
		if code := post(-1); code != http.StatusBadRequest {
			t.Errorf("a large review that has its turn is answered %d", code)
		}
	}
	if len(c.small) != 0 || len(c.large) != largeAtOnce-1 {
		t.Errorf("%d and %d turns are taken in the end", len(c.small), len(c.large))
	}
}

// TestAReviewThatClaimsToBeSmall is read no further than that.
func TestAReviewThatClaimsToBeSmall(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, PathConvert, strings.NewReader(`"`+strings.Repeat("x", smallReview)+`"`))
	r.ContentLength = 10
	w := httptest.NewRecorder()
	newConverter().ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "too large") {
		t.Errorf("%d: %s", w.Code, w.Body.String())
	}
}
