// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// stuck is the connection of a browser that reads nothing.
type stuck struct {
	*httptest.ResponseRecorder
	writing, release chan struct{}
}

func (s *stuck) Write(data []byte) (int, error) {
	close(s.writing)
	<-s.release
	return len(data), nil
}

// Two users who ask for plans and do not read the answers, of which a connection takes a part only, do not keep a third from planning: their places are free once the plans are made.
func TestWhoDoesNotReadAPlanHoldsNoPlace(t *testing.T) {
	people := map[string]*person{}
	for _, name := range []string{"alice", "bob", "carol"} {
		people[name] = newPerson(t, name, roll().Objects(t)...)
	}
	h := newHouse(t, 10, people)
	const plan = `{"verb": "plan", "namespace": "default", "set": "ads/agent", "flags": {"image": "agent=x:3"}}`
	release, ended := make(chan struct{}), make(chan struct{})
	for _, name := range []string{"alice", "alice", "bob", "bob"} {
		w := &stuck{httptest.NewRecorder(), make(chan struct{}), release}
		go func() {
			h.p.handler().ServeHTTP(w, h.request(t.Context(), http.MethodPost, verbPath, plan, name))
			ended <- struct{}{}
		}()
		<-w.writing // the plan is made
	}
	code := make(chan int, 1)
	go func() {
		answer := httptest.NewRecorder()
		h.p.handler().ServeHTTP(answer, h.request(t.Context(), http.MethodPost, verbPath, plan, "carol"))
		code <- answer.Code
	}()
	select {
	case got := <-code:
		if got != http.StatusOK {
			t.Errorf("the plan of another user is answered with %d", got)
		}
	case <-time.After(2 * time.Second):
		t.Error("the plan of another user waits until others have read theirs")
	}
	close(release)
	for range 4 {
		<-ended
	}
}
