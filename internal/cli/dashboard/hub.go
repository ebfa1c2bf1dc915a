// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"sync"
	"time"

	"everynode.dev/everynode/internal/clustercache"
)

// builder makes the next frame of a page. It is called by one goroutine at a time.
type builder interface {
	build(ctx context.Context) (*frame, error)
	// pace is the minimum time between two frames, and the maximum time, so that times in them are updated.
	pace() (shortest, longest time.Duration)
}

// hub makes the frames of one page for all of its viewers, while there are any.
type hub struct {
	builder builder
	// changed receives a value when a new frame is due.
	changed chan struct{}
	// ctx ends with the last viewer, not with a call.
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}
	viewers int // guarded by hubs.mu

	mu      sync.Mutex
	current *frame
	err     error
	next    chan struct{} // closed with the next frame
}

// touch says that something has changed. It never waits.
func (h *hub) touch() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// look returns the current frame, which is nil before the first, and a channel that is closed with the next.
func (h *hub) look() (*frame, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current, h.next
}

func (h *hub) ended() <-chan struct{} { return h.ctx.Done() }

// first waits for the first frame.
func (h *hub) first(ctx context.Context) (*frame, error) {
	for {
		current, next := h.look()
		if current != nil {
			return current, nil
		}
		h.mu.Lock()
		err := h.err
		h.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err() //nolint:wrapcheck // who waits has left
		case <-next:
		}
	}
}

func (h *hub) publish(f *frame, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err = err; f != nil {
		h.current = f
	}
	close(h.next)
	h.next = make(chan struct{})
}

// run builds frames until the hub ends.
func (h *hub) run() {
	defer close(h.done)
	shortest, longest := h.builder.pace()
	for h.ctx.Err() == nil {
		h.publish(h.builder.build(h.ctx))
		if !wait(h.ctx, shortest, nil) || !wait(h.ctx, longest-shortest, h.changed) {
			return
		}
	}
}

// wait returns after d, or when something is received. It returns false if ctx has ended.
func wait(ctx context.Context, d time.Duration, c <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-c:
	}
	return true
}

// hubs are the hubs of the pages that are viewed.
type hubs struct {
	// ctx is the context of the program: hubs outlive the request that starts them.
	ctx context.Context

	mu  sync.Mutex
	all map[string]*hub
}

// join returns the hub of a page, and starts it for the first viewer. leave must be called; with the last viewer the hub ends.
func (s *hubs) join(page string, newBuilder func() builder) (h *hub, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h = s.all[page]
	if h == nil {
		ctx, cancel := context.WithCancel(s.ctx)
		h = &hub{builder: newBuilder(), changed: make(chan struct{}, 1), ctx: ctx, cancel: cancel, done: make(chan struct{}), next: make(chan struct{})}
		s.all[page] = h
		go h.run()
	}
	h.viewers++
	return h, sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if h.viewers--; h.viewers == 0 {
			h.cancel()
			delete(s.all, page)
		}
	})
}

// touch says that something on pages has changed.
func (s *hubs) touch(shows func(page string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for page, h := range s.all {
		if shows(page) {
			h.touch()
		}
	}
}

// note says that a set has changed: to its page, and to those that show many sets.
func (s *hubs) note(key clustercache.Key) {
	own := pageOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for page, h := range s.all {
		if many, is := h.builder.(interface{ note(key clustercache.Key) }); is {
			many.note(key)
		} else if page != own {
			continue
		}
		h.touch()
	}
}

// count is the number of hubs.
func (s *hubs) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}
