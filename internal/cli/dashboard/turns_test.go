// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// has waits until an owner has a number of places, and a number of requests wait.
func (t *turns) has(test *testing.T, owner string, held, waiting int) {
	test.Helper()
	for {
		t.mu.Lock()
		h, w := t.held[owner], len(t.waiting)
		t.mu.Unlock()
		if h == held && w == waiting {
			return
		}
		if !wait(test.Context(), time.Millisecond, nil) {
			test.Fatalf("%s has %d places and %d requests wait, want %d and %d", owner, h, w, held, waiting)
		}
	}
}

// A place that becomes free goes to the owner who has the fewest, also if another one came before.
func TestTheOwnersTakeTurns(t *testing.T) {
	places := newTurns()
	got := make(chan string, 10)
	releases := map[string]chan func(){}
	ask := func(owner string) {
		if releases[owner] == nil {
			releases[owner] = make(chan func(), 10)
		}
		of := releases[owner]
		go func() {
			release, err := places.take(t.Context(), owner)
			if err != nil {
				t.Error(err)
				return
			}
			of <- release
			got <- owner
		}()
	}
	next := func(want string) {
		t.Helper()
		if owner := <-got; owner != want {
			t.Errorf("%s gets a place, want %s", owner, want)
		}
	}
	for i := range mostPlansOfOwner {
		ask("alice")
		next("alice")
		places.has(t, "alice", i+1, 0)
	}
	ask("alice") // she waits although places are free
	places.has(t, "alice", mostPlansOfOwner, 1)
	for range mostPlans - mostPlansOfOwner {
		ask("bob")
		next("bob")
	}
	ask("carol")
	places.has(t, "carol", 0, 2)
	(<-releases["alice"])()
	next("carol") // alice came before, and has a place
	(<-releases["bob"])()
	next("alice")
}

// A request that ends while it waits gives up its turn, and one owner has only so many that wait.
func TestTurnsEnd(t *testing.T) {
	places := newTurns()
	for range mostPlansOfOwner {
		if _, err := places.take(t.Context(), "alice"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for range mostWaiting {
		go func() {
			_, err := places.take(ctx, "alice")
			ended <- err
		}()
	}
	places.has(t, "alice", mostPlansOfOwner, mostWaiting)
	if _, err := places.take(t.Context(), "alice"); !errors.Is(err, errNoTurn) {
		t.Errorf("one more waits: %v", err)
	}
	if release, err := places.take(t.Context(), "bob"); err != nil {
		t.Errorf("another owner: %v", err)
	} else {
		release()
	}
	cancel()
	for range mostWaiting {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ends with %v", err)
		}
	}
	places.has(t, "alice", mostPlansOfOwner, 0)
}

// A user with three tokens who sends plans that never arrive, and the service accounts of one namespace, together leave places to all others.
func TestNoUserKeepsOthersFromPlanning(t *testing.T) {
	people := map[string]*person{"bob": newPerson(t, "bob", roll().Objects(t)...)}
	for _, token := range []string{"1", "2", "3"} {
		people["alice-"+token] = newPerson(t, "alice", roll().Objects(t)...)
	}
	h := newHouse(t, 10, people)
	ctx, cancel := context.WithCancel(t.Context())
	held := make(chan struct{})
	for token := range people {
		if token == "bob" {
			continue
		}
		for range 2 {
			body, in := io.Pipe()
			r := h.request(ctx, http.MethodPost, applyPath, "", token)
			r.Body, r.ContentLength = body, -1
			go func() {
				if answer, err := h.web.Client().Do(r); err == nil {
					_ = answer.Body.Close()
				}
				_ = in.Close()
				held <- struct{}{}
			}()
		}
	}
	h.p.turns.has(t, "alice", mostPlansOfOwner, 6-mostPlansOfOwner)
	plan := `{"verb": "plan", "namespace": "default", "set": "ads/agent", "flags": {"image": "registry.example/agent:3"}}`
	for path, want := range map[string]struct {
		body string
		code int
	}{applyPath: {"{}", http.StatusBadRequest}, verbPath: {plan, http.StatusOK}} {
		answer := h.send(h.request(t.Context(), http.MethodPost, path, want.body, "bob"))
		_ = answer.Body.Close()
		if answer.StatusCode != want.code {
			t.Errorf("%s of another user is answered with %s, want %d", path, answer.Status, want.code)
		}
	}
	cancel()
	for range 6 {
		<-held
	}
	h.p.turns.has(t, "alice", 0, 0)
}

// A plan that is made needs a place, as one that is applied; other commands need none.
func TestMakingAPlanNeedsAPlace(t *testing.T) {
	h := newHouse(t, 2, map[string]*person{"s": newPerson(t, "system:serviceaccount:tenant:agent", roll().Objects(t)...)})
	var releases []func()
	for range mostPlansOfOwner {
		release, err := h.p.turns.take(t.Context(), ownerOf("system:serviceaccount:tenant:other"))
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	ask := func(verb, more string) int {
		answer := h.send(h.request(t.Context(), http.MethodPost, verbPath, fmt.Sprintf(`{"verb": %q, "namespace": "default", "set": "ads/agent"%s}`, verb, more), "s"))
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	if code := ask("pause", `, "dryRun": true`); code != http.StatusOK {
		t.Errorf("another command is answered with %d", code)
	}
	code := make(chan int)
	go func() { code <- ask("plan", "") }()
	h.p.turns.has(t, "system:serviceaccounts:tenant", mostPlansOfOwner, 1)
	releases[0]()
	if got := <-code; got != http.StatusOK {
		t.Errorf("the plan is answered with %d", got)
	}
}
