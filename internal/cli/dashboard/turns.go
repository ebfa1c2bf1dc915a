// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// mostPlans is the maximum number of plans that are made or applied at a time, of all users together: for 100,000 nodes each needs some hundred MiB.
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
	// held is how many places each owner has.
	held map[string]int
	// waiting are in the order in which they came.
	waiting []*turn
}

// turn is a request for a place. given is closed when it has one.
type turn struct {
	owner string
	given chan struct{}
}

// turnLimits are the maximum numbers of places, of those of one owner, and of the requests of one owner that wait.
type turnLimits struct{ most, mostOfOwner, mostWaiting int }

// newTurns returns the places of plans.
func newTurns() *turns { return newTurnsOf(turnLimits{mostPlans, mostPlansOfOwner, mostWaiting}) }

func newTurnsOf(limits turnLimits) *turns { return &turns{turnLimits: limits, held: map[string]int{}} }

// take waits for a place. release must be called.
func (t *turns) take(ctx context.Context, owner string) (release func(), err error) {
	own, err := t.ask(owner)
	if err != nil {
		return nil, err
	}
	release = sync.OnceFunc(func() { t.leave(own) })
	patience := time.NewTimer(turnPatience)
	defer patience.Stop()
	select {
	case <-own.given:
		return release, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-patience.C:
		err = errNoTurn
	}
	release()
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
	own := &turn{owner, make(chan struct{})}
	t.waiting = append(t.waiting, own)
	t.give()
	return own, nil
}

// leave gives a place back, or leaves the queue.
func (t *turns) leave(own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := slices.Index(t.waiting, own); at >= 0 {
		t.waiting = slices.Delete(t.waiting, at, at+1)
		return
	}
	if t.held[own.owner]--; t.held[own.owner] == 0 {
		delete(t.held, own.owner)
	}
	t.give()
}

// give gives the places that are free. t.mu must be held.
func (t *turns) give() {
	for {
		total, next := 0, -1
		for _, n := range t.held {
			total += n
		}
		for i, w := range t.waiting {
			if n := t.held[w.owner]; n < t.mostOfOwner && (next < 0 || n < t.held[t.waiting[next].owner]) {
				next = i
			}
		}
		if next < 0 || total >= t.most {
			return
		}
		own := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		t.held[own.owner]++
		close(own.given)
	}
}

// planned serves a request when it is the turn of its owner.
func (s *server) planned(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		release, err := s.turns.take(r.Context(), s.owner)
		if err != nil {
			w.Header().Set("Retry-After", "5")
			fail(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		defer release()
		ctx, cancel := context.WithTimeout(r.Context(), planPatience)
		defer cancel()
		next(w, r.WithContext(ctx))
	}
}
