// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/rollout"
)

// Load describes what an answer shows about the load of the API server.
type Load uint8

// The loads.
const (
	Unknown Load = iota // nothing: a refusal may come sooner than anything else, and a webhook that is down is not the server
	Bears               // it did what was asked; how long it took shows the rest
	Strains             // it asks for a pause, times out, or is unavailable
)

// LoadOf reads an answer.
func LoadOf(err error) Load {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return Bears
	case IsBusy(err):
		return Strains
	case errors.Is(err, context.Canceled):
		return Unknown
	case !errors.As(err, &status):
		return Strains // a time-out or a broken connection
	case denied(err):
		return Unknown
	}
	switch status.Status().Code {
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Strains
	}
	if status.Status().Reason == metav1.StatusReasonServerTimeout {
		return Strains // its storage gave no answer
	}
	return Unknown
}

// IsBusy reports whether the API server asks for a retry later. An overloaded API server names the time; a
// webhook may use 429 like any other code, and this is a refusal.
func IsBusy(err error) bool {
	_, asks := apierrors.SuggestsClientDelay(err)
	return asks && apierrors.IsTooManyRequests(err) && !denied(err)
}

// Window is how many writes may be under way at once, all sets together. It follows what the API server bears:
//
//   - From the time that answers take it reckons how many writes wait inside of the server: with 100 under way, of which each takes four times
//     as long as the fastest one, 25 would do as much, and 75 wait. Below idleQueue it grows by one for each round of answers, above longQueue
//     it gives an eighth away. So answers that are slow for another reason leave idleQueue writes at once.
//   - An answer that shows strain halves it, once for all writes that were under way then. Further ones in a row also close it for a while.
//
// It does not grow while it is not used up. It has no clock and no lock.
type Window struct {
	size, most int
	busy       int   // sent and not answered
	next       int64 // the number of the next write
	fastest    map[string]*fastest
	round      round

	cut     int64 // the number of the first write after the last cut
	cuts    int   // in a row
	closing rollout.Time
}

// round is what the answers of about one window have shown.
type round struct {
	first   int64 // the number of the first write that was sent in it
	answers int
	served  float64 // the sum of the share of each answer's time that was not spent waiting
	peak    int     // of writes that were under way
}

const (
	leastWindow = 2
	// idleQueue keeps every server busy, and longQueue is the load of a simple client that wants to be as fast as possible.
	idleQueue, longQueue = 32, 64
	firstPause, maxPause = 100 * time.Millisecond, 5 * time.Second
	// remember is for how long the fastest answer counts, at least.
	remember = 5 * time.Minute
)

// NewWindow begins with idleQueue writes at once, and never has more than most.
func NewWindow(most int) *Window {
	return &Window{size: min(idleQueue, most), most: most, fastest: map[string]*fastest{}}
}

// Size is how many writes may be under way.
func (w *Window) Size() int { return w.size }

// Closed is for how long no write may be sent; 0 or less when it may.
func (w *Window) Closed(now rollout.Time) time.Duration { return w.closing.Sub(now) }

// Sent is a write that is under way.
type Sent struct {
	number int64
	at     rollout.Time
	verb   string
}

// Send notes that a write is sent. Verbs are compared with themselves only: a create takes longer than a delete.
func (w *Window) Send(verb string, now rollout.Time) Sent {
	w.busy++
	w.round.peak = max(w.round.peak, w.busy)
	w.next++
	return Sent{number: w.next - 1, at: now, verb: verb}
}

// Answered notes the answer to a write.
func (w *Window) Answered(s Sent, load Load, now rollout.Time) {
	w.busy--
	switch load {
	case Strains:
		if s.number >= w.cut {
			w.strain(now)
		}
	case Bears:
		if s.number >= w.cut {
			w.cuts = 0
		}
		w.round.answers++
		w.round.served += w.share(s.verb, max(now.Sub(s.at), time.Microsecond), now)
		if s.number >= w.round.first && 2*w.round.answers >= w.size {
			w.adjust()
		}
	}
}

// strain halves the window, and closes it when a halved one was still too large, or the server is away.
func (w *Window) strain(now rollout.Time) {
	w.size = max(w.size/2, leastWindow)
	w.cuts++
	if w.cuts > 1 {
		w.closing = now.Add(min(firstPause<<min(w.cuts-2, 10), maxPause))
	}
	w.cut = w.next
	w.round = round{first: w.next, peak: w.busy}
}

// adjust ends a round.
func (w *Window) adjust() {
	r := w.round
	waiting := float64(r.peak) * (1 - r.served/float64(r.answers))
	needed := 4*(r.peak+1) >= 3*w.size
	switch {
	case waiting > longQueue:
		w.size = max(w.size-w.size/8, leastWindow)
	case waiting < idleQueue && needed:
		w.size = min(w.size+1, w.most)
	}
	w.round = round{first: w.next, peak: w.busy}
}

// fastest is the shortest time that an answer took lately: in the current stretch of time and in the one before.
type fastest struct {
	now, before time.Duration
	since       rollout.Time
}

// share records how long an answer took, and returns what part of this time the fastest answer to the verb takes.
func (w *Window) share(verb string, took time.Duration, now rollout.Time) float64 {
	f := w.fastest[verb]
	if f == nil {
		f = &fastest{now: math.MaxInt64, before: math.MaxInt64}
		w.fastest[verb] = f
	}
	if now.Sub(f.since) > remember {
		f.before, f.now, f.since = f.now, took, now
	}
	f.now = min(f.now, took)
	return float64(min(f.now, f.before)) / float64(took)
}
