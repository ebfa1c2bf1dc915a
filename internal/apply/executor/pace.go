// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/rollout"
)

// patience limits the total wait before retries of a request that the API server rejects for lack of capacity.
const patience = writeTimeout

// Pace lets the requests of all sets out, as many at once as the API server bears (apply.Window). While there are more, the sets take turns,
// one set alone never has the whole window, and one that has nothing under way does not wait for any: sets whose writes hang in a webhook leave
// room for the others. Make one with NewPace.
type Pace struct {
	clock clock.PassiveClock
	began time.Time
	// wait returns when one more request is within the limit of the client.
	wait  func(context.Context) error
	sleep func(context.Context, time.Duration) error
	// Leads, if not nil, is asked just before each request is sent: however long that has waited, nothing else is between. What is not sent
	// then has the error apply.ErrNotLeading.
	Leads func() bool

	mu     sync.Mutex
	window *apply.Window
	held   int
	sets   map[clustercache.Key]*turns
	// order is the order of turns of the sets with waiting requests.
	order []clustercache.Key
}

// turns are the requests of one set.
type turns struct {
	held    int
	waiting []*turn
}

// turn is a request that waits.
type turn struct {
	granted chan struct{} // closed when it is its turn
	given   bool          // up, because its caller does not wait for it any more
	late    func() bool   // that of the request
	left    bool          // to the next pass: it was late when its turn came
}

// NewPace returns a Pace that takes its time from c. The functions return early, with the error of the context, when that ends.
func NewPace(c clock.PassiveClock, wait func(context.Context) error, sleep func(context.Context, time.Duration) error) *Pace {
	return &Pace{clock: c, began: c.Now(), wait: wait, sleep: sleep, window: apply.NewWindow(rollout.DefaultBurst), sets: map[clustercache.Key]*turns{}}
}

// Throttle returns when one more request is within the limit of the client. It is for requests that have no turn.
func (p *Pace) Throttle(ctx context.Context) error { return p.wait(ctx) }

// Window is how many requests may be under way at once.
func (p *Pace) Window() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.window.Size()
}

// request is a request of a set. It is sent by send, and busy is called before it is sent again.
type request struct {
	key  clustercache.Key
	verb string
	send func() error
	busy func()
	// late, if not nil, is asked when its turn has come; errLate is returned if it is not to be sent any more. It makes no requests itself.
	late func() bool
	// void, if not nil, is asked just before each time it is sent: errLate is returned if there is no reason for it any more.
	void func() bool
	// queued, if not nil, is called when the request is in the queue.
	queued func()
}

// errLate is returned for a request that was not sent, because other sets have waited long enough, or there is no reason for it any more.
var errLate = errors.New("left to the next pass")

// do sends a request when its turn has come. A server that has no room for it is asked again when it says.
func (p *Pace) do(ctx context.Context, r request) error {
	for waited := time.Duration(0); ; {
		if err := p.take(ctx, r); err != nil {
			return err
		}
		sent := p.begin(r.verb) // only from here on the time is the server's
		err := apply.Brief(r.send())
		p.answered(r.key, sent, err)
		r.late = nil // what was sent once is not left
		if !apply.IsBusy(err) {
			return err
		}
		seconds, _ := apierrors.SuggestsClientDelay(err)
		pause := time.Duration(max(seconds, 1)) * time.Second
		if waited += pause; waited > patience {
			return err
		}
		r.busy()
		if err := p.sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// take returns when a request may be sent, which answered must follow. If there is an error, the request is not to be sent: it is errLate if it is late, or
// void by then.
func (p *Pace) take(ctx context.Context, r request) error {
	if err := p.queue(ctx, r); err != nil {
		return err
	}
	err := p.room(ctx)
	switch {
	case err != nil:
	case p.Leads != nil && !p.Leads():
		err = apply.ErrNotLeading
	case r.void != nil && r.void():
		err = errLate
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.release(r.key)
	}
	return err
}

// room returns when the window is open, and one more request is within the limit of the client.
func (p *Pace) room(ctx context.Context) error {
	now := p.now()
	p.mu.Lock()
	closed := p.window.Closed(now)
	p.mu.Unlock()
	if closed > 0 {
		if err := p.sleep(ctx, closed); err != nil {
			return err
		}
	}
	return p.wait(ctx)
}

// now returns a monotonic time: how long the API server may be processing a request does not depend on changes of the clock.
func (p *Pace) now() rollout.Time {
	return rollout.Time(p.began.Add(p.clock.Since(p.began)).UnixNano())
}

// begin notes that a request is sent.
func (p *Pace) begin(verb string) apply.Sent {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.window.Send(verb, now)
}

// answered notes the answer to a request, and ends its turn.
func (p *Pace) answered(key clustercache.Key, sent apply.Sent, err error) {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.window.Answered(sent, apply.LoadOf(err), now)
	p.release(key)
}

// queue waits for a turn. It returns errLate, and there is nothing to be freed, if the request is late by then.
func (p *Pace) queue(ctx context.Context, r request) error {
	t := &turn{granted: make(chan struct{}), late: r.late}
	p.mu.Lock()
	s := p.sets[r.key]
	if s == nil {
		s = &turns{}
		p.sets[r.key] = s
	}
	if s.waiting = append(s.waiting, t); len(s.waiting) == 1 {
		p.order = append(p.order, r.key)
	}
	p.grant()
	p.mu.Unlock()
	if r.queued != nil {
		r.queued()
	}
	select {
	case <-t.granted:
		if t.left {
			return errLate
		}
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-t.granted: // granted at the same time
		if !t.left {
			p.release(r.key)
		}
	default:
		t.given = true
		p.grant() // it goes over those that were given up
	}
	return ctx.Err()
}

// release ends the turn of a request, and grants the next ones.
func (p *Pace) release(key clustercache.Key) {
	p.held--
	s := p.sets[key]
	if s.held--; s.held == 0 && len(s.waiting) == 0 {
		delete(p.sets, key)
	}
	p.grant()
}

// grant lets as many requests out as there is room for, and one of each set that has none under way, whether there is room or not: in a small window
// two sets whose writes hang until they time out would leave no capacity for a third one. The window is exceeded by less than one request for each active pass.
func (p *Pace) grant() {
	for skipped := 0; skipped < len(p.order); {
		key := p.order[0]
		s := p.sets[key]
		p.order = p.order[1:]
		for len(s.waiting) > 0 && s.waiting[0].given {
			s.waiting = s.waiting[1:]
		}
		switch {
		case len(s.waiting) == 0:
			if s.held == 0 {
				delete(p.sets, key)
			}
			continue
		case s.held > 0 && (p.held >= p.window.Size() || s.held >= max(p.window.Size()-1, 1)):
			skipped++
		default:
			t := s.waiting[0]
			s.waiting = s.waiting[1:]
			if t.left = t.late != nil && t.late(); !t.left {
				s.held++
				p.held++
			}
			close(t.granted)
			skipped = 0
		}
		if len(s.waiting) > 0 {
			p.order = append(p.order, key)
		} else if s.held == 0 {
			delete(p.sets, key)
		}
	}
}
