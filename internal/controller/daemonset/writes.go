// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
)

// The kinds of writes of a set, other than those of pods. Deletes of old revisions are a kind of their own: no decision waits for one.
const (
	writesStatus      = "status"
	writesRevision    = "revision"
	writesOldRevision = "old revision"
	writesPullJob     = "pull job"
	writesTemplate    = "template"
)

// slowFor is how long no worker waits for the writes of a kind in a namespace after one of them has taken longer than executor.WriteTimeout.
const slowFor = 10 * time.Minute

// The maximum number of writes in flight that no worker waits for, in one namespace and in total.
const slowOfNamespace, slowInAll = 64, 256

// errLater is the error of a write whose answer the pass does not wait for. Another pass follows the answer.
var errLater = fmt.Errorf("a write takes longer than %s, as with a slow webhook: the daemon set goes on when the API server has answered it", executor.WriteTimeout)

// errTooManySlow is of a write that is not sent.
var errTooManySlow = errors.New("too many slow writes are under way, as with a webhook that does not answer")

// writesOf are the writes of one kind of a set.
type writesOf struct {
	key  clustercache.Key
	kind string
}

type slowKind struct{ namespace, kind string }

func (w writesOf) slowKind() slowKind { return slowKind{w.key.Namespace, w.kind} }

// slowWrites are the writes that no worker waits for. Webhooks select namespaces, so one slow write shows
// that other writes of its kind in the namespace are slow too. So however many sets a namespace has, each
// worker waits for at most one of their slow writes.
type slowWrites struct {
	mu       sync.Mutex
	until    map[slowKind]time.Time
	underWay map[writesOf]bool
	// refused is why the last of them was refused, for those that were.
	refused map[writesOf]error
	running sync.WaitGroup
}

// noteSlow notes that a write has taken long.
func (s *slowWrites) noteSlow(kind slowKind, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[slowKind]time.Time{}
	}
	maps.DeleteFunc(s.until, func(_ slowKind, until time.Time) bool { return !now.Before(until) })
	s.until[kind] = now.Add(slowFor)
}

// isSlow reports whether no worker waits for the writes of that kind.
func (s *slowWrites) isSlow(kind slowKind, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.until[kind])
}

// answered notes the answer to a write.
func (s *slowWrites) answered(w writesOf, err error) {
	refused := err != nil && apply.OfCreate(err) == apply.Refused
	s.mu.Lock()
	defer s.mu.Unlock()
	if !refused {
		delete(s.refused, w)
		return
	}
	if s.refused == nil {
		s.refused = map[writesOf]error{}
	}
	s.refused[w] = apply.Brief(err)
}

// later is errLater, with why the last write of that kind was refused: no pass sees that answer.
func (s *slowWrites) later(w writesOf) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why := s.refused[w]; why != nil {
		return fmt.Errorf("%w; the last one was refused: %w", errLater, why)
	}
	return errLater
}

// onlyLater reports whether err says no more than that a write has no answer yet: the last one of its kind was not refused.
func onlyLater(err error) bool {
	return errors.Is(err, errLater) && apply.OfCreate(err) != apply.Refused
}

// forget is for a set that is gone.
func (s *slowWrites) forget(key clustercache.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.refused, func(w writesOf, _ error) bool { return w.key == key })
}

// waits is whether such a write of the set has no answer yet.
func (s *slowWrites) waits(w writesOf) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.underWay[w]
}

// enter begins a write that no worker waits for.
func (s *slowWrites) enter(w writesOf) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.underWay[w] {
		return errLater
	}
	same := 0
	for other := range s.underWay {
		if other.key.Namespace == w.key.Namespace {
			same++
		}
	}
	if same >= slowOfNamespace || len(s.underWay) >= slowInAll {
		return errTooManySlow
	}
	if s.underWay == nil {
		s.underWay = map[writesOf]bool{}
	}
	s.underWay[w] = true
	return nil
}

func (s *slowWrites) leave(w writesOf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.underWay, w)
}

// write sends a write of the set, with what follows from its answer. It has executor.WriteTimeout. In a namespace where one of its kind has taken longer, it
// has executor.SlowWriteTimeout and is sent without the pass waiting for it: the error is errLater, one is under way at a time for each set, and another pass
// follows its answer. Then send runs while passes of the set are made.
//
// Unlike slow writes of pods, a later leader does not wait for these: a late write of a status is corrected when the watch shows it, and those of revisions
// and jobs carry a UID, or a name that is derived from what they are for.
func (p *pass) write(ctx context.Context, kind string, send func(ctx context.Context) error) error {
	c, w := p.c, writesOf{p.key, kind}
	if !p.slow(kind) {
		err := c.send(ctx, w, executor.WriteTimeout, send)
		c.slow.answered(w, nil) // the pass sees it
		return err
	}
	switch err := c.slow.enter(w); {
	case errors.Is(err, errLater):
		return c.slow.later(w)
	case err != nil:
		return err
	}
	c.slow.running.Go(func() {
		defer c.Index.Notify(w.key)
		defer c.slow.leave(w)
		err := c.send(ctx, w, executor.SlowWriteTimeout, send)
		c.slow.answered(w, err)
		if ctx.Err() == nil && c.failures.isNew(w.key, err) {
			klog.FromContext(ctx).Error(err, "A slow write failed and will be repeated", "set", w.key.String(), "of", kind)
		}
	})
	return c.slow.later(w)
}

// slow reports whether the pass does not wait for writes of that kind.
func (p *pass) slow(kind string) bool {
	w := writesOf{p.key, kind}
	return p.c.Executor.Slow != nil && (p.c.slow.isSlow(w.slowKind(), p.c.Clock.Now()) || p.c.slow.waits(w))
}

// send sends one request within the rate limit of the client, with a timeout; the wait for the rate limit does not count.
func (c *Controller) send(ctx context.Context, w writesOf, timeout time.Duration, send func(ctx context.Context) error) error {
	if err := c.Executor.Pace.Throttle(ctx); err != nil {
		return err
	}
	began := c.Clock.Now()
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := send(limited)
	if ctx.Err() == nil && (apply.TimedOut(err) || c.Clock.Since(began) >= executor.WriteTimeout) {
		c.slow.noteSlow(w.slowKind(), c.Clock.Now())
	}
	return err
}

// read asks the API server itself, within the limit of the client and for no longer than executor.WriteTimeout.
func read[T any](ctx context.Context, c *Controller, get func(ctx context.Context) (T, error)) (T, error) {
	if err := c.Executor.Pace.Throttle(ctx); err != nil {
		return *new(T), err
	}
	ctx, cancel := context.WithTimeout(ctx, executor.WriteTimeout)
	defer cancel()
	return get(ctx)
}
