// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// mostPlans is the maximum number of plans that are made or applied, and of explanations, at a time, of all users together: for 100,000 nodes each needs some hundred MiB.
	mostPlans = 4
	// mostPlansOfOwner is the maximum number of those of one owner, mostWaiting that of the plans of one owner that wait.
	mostPlansOfOwner = 2
	mostWaiting      = 6
	// turnPatience is how long a plan waits for its turn, planPatience how long it may take then: later no answer can be written.
	turnPatience = time.Minute
	planPatience = requestPatience - turnPatience
)

var errNoTurn = errors.New("the dashboard makes as many plans as it may: try again later")

// turns are the places of plans. The owners take turns: a place that becomes free goes to the waiting owner who has the fewest, so no owner can keep another from planning. An
// owner is a user, or the namespace of service accounts, of which its owner can create any number.
type turns struct {
	turnLimits
	mu sync.Mutex
	// used is how many places are in use. held is how many each owner has: with those whose answers the owner has not read yet, which are in use no more.
	used int
	held map[string]int
	// waiting are in the order in which they came.
	waiting []*turn
}

// turn is a request for a place. given is closed when it has one.
type turn struct {
	owner string
	given chan struct{}
	// free reports whether the place is for others again.
	free bool
}

// turnLimits are the maximum numbers of places, of those of one owner, and of the requests of one owner that wait.
type turnLimits struct{ most, mostOfOwner, mostWaiting int }

// newTurns returns the places of plans.
func newTurns() *turns { return newTurnsOf(turnLimits{mostPlans, mostPlansOfOwner, mostWaiting}) }

func newTurnsOf(limits turnLimits) *turns { return &turns{turnLimits: limits, held: map[string]int{}} }

// take waits for a place. release must be called.
func (t *turns) take(ctx context.Context, owner string) (release func(), err error) {
	own, err := t.await(ctx, owner)
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { t.leave(own) }), nil
}

// await waits for a place. leave must be called.
func (t *turns) await(ctx context.Context, owner string) (own *turn, err error) {
	if own, err = t.ask(owner); err != nil {
		return nil, err
	}
	patience := time.NewTimer(turnPatience)
	defer patience.Stop()
	select {
	case <-own.given:
		return own, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-patience.C:
		err = errNoTurn
	}
	t.leave(own)
	return nil, err
}

// ask puts an owner in the queue.
func (t *turns) ask(owner string) (*turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting := 0
	for _, w := range t.waiting {
		if w.owner == owner {
			waiting++
		}
	}
	if waiting >= t.mostWaiting {
		return nil, errNoTurn
	}
	own := &turn{owner: owner, given: make(chan struct{})}
	t.waiting = append(t.waiting, own)
	t.give()
	return own, nil
}

// release lets others use a place. It counts for its owner until leave.
func (t *turns) release(own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free(own)
	t.give()
}

// free frees a place, once. t.mu must be held.
func (t *turns) free(own *turn) {
	if !own.free {
		own.free = true
		t.used--
	}
}

// leave gives a place back, or leaves the queue.
func (t *turns) leave(own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := slices.Index(t.waiting, own); at >= 0 {
		t.waiting = slices.Delete(t.waiting, at, at+1)
		return
	}
	t.free(own)
	if t.held[own.owner]--; t.held[own.owner] == 0 {
		delete(t.held, own.owner)
	}
	t.give()
}

// give gives the places that are free. t.mu must be held.
func (t *turns) give() {
	for {
		next := -1
		for i, w := range t.waiting {
			if n := t.held[w.owner]; n < t.mostOfOwner && (next < 0 || n < t.held[t.waiting[next].owner]) {
				next = i
			}
		}
		if next < 0 || t.used >= t.most {
			return
		}
		own := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		t.held[own.owner]++
		t.used++
		close(own.given)
	}
}

// planned serves a request when it is the turn of its owner. The answer is written when the place is free again: a browser may read it slowly, or not at all.
func (s *server) planned(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		own, err := s.turns.await(r.Context(), s.owner)
		if err != nil {
			w.Header().Set("Retry-After", "5")
			fail(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		defer s.turns.leave(own)
		ctx, cancel := context.WithTimeout(r.Context(), planPatience)
		defer cancel()
		later := &laterWriter{ResponseWriter: w, code: http.StatusOK}
		next(later, r.WithContext(ctx))
		s.turns.release(own)
		w.WriteHeader(later.code)
		_, _ = w.Write(later.body.Bytes()) // who has left does not read it
	}
}

// laterWriter keeps an answer until it is written.
type laterWriter struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

func (l *laterWriter) WriteHeader(code int) { l.code = code }

func (l *laterWriter) Write(data []byte) (int, error) { return l.body.Write(data) } //nolint:wrapcheck // it never fails

// Unwrap is for http.ResponseController.
func (l *laterWriter) Unwrap() http.ResponseWriter { return l.ResponseWriter }
