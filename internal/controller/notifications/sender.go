// SPDX-License-Identifier: Apache-2.0

// Package notifications sends what happens in rollouts under rollout policies to servers outside of the cluster: CloudEvents 1.0 in JSON, signed as the Standard
// Webhooks specify it.
//
// # Rule
//
// Send never waits. Each target has a queue and a goroutine of its own, so a target that hangs, redirects, refuses or answers too much delays neither a decision
// nor another target. A queue is bounded, and so is how long the delivery of an event is tried: what is lost is counted. A target gets the events of a namespace in their order,
// each at least once while this process runs. Namespaces take turns, and the delay between two attempts of one delays no other; the identity of an event is the same in each attempt, and for each process.
//
// Only the administrator says where targets are. No policy names one, and no text of a policy becomes a part of an address or a header.
package notifications

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/controller/endpoint"
	"everynode.dev/everynode/internal/policy"
)

// The results that are counted for each target.
const (
	// ResultSent: the target has accepted an event.
	ResultSent = "sent"
	// ResultRetried: an attempt has failed, and is repeated.
	ResultRetried = "retried"
	// ResultFailed: an event is lost, because the target has refused it, or the delivery has been tried for too long.
	ResultFailed = "failed"
	// ResultDropped: an event is lost, because the queue was full.
	ResultDropped = "dropped"
)

// Results returns all results.
func Results() []string { return []string{ResultSent, ResultRetried, ResultFailed, ResultDropped} }

// maxDelay is the longest time between two attempts, also if the target asks for a longer one.
const maxDelay = 5 * time.Minute

// Sender sends to all targets. Make one with New.
type Sender struct {
	clock clock.WithTicker
	// changed has an element after the targets were replaced.
	changed chan struct{}
	mu      sync.Mutex
	targets *Targets
	// count counts a result of a target.
	count func(target, result string)
	// backoff is the delay between attempts to send the events of a namespace to a target.
	backoff wait.Backoff
}

// New returns a Sender; targets is nil for none. Run starts it.
func New(targets *Targets, c clock.WithTicker, count func(target, result string)) *Sender {
	if targets == nil {
		targets = &Targets{}
	}
	return &Sender{
		targets: targets, clock: c, count: count, changed: make(chan struct{}, 1),
		backoff: wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 32, Cap: maxDelay},
	}
}

// Replace replaces the targets. A target with the same name keeps its queue; messages for a removed target are lost.
func (s *Sender) Replace(targets *Targets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range targets.all {
		for _, was := range s.targets.all {
			if was.name == t.name {
				t.queue = was.queue
			}
		}
	}
	s.targets = targets
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// current are the targets that count now.
func (s *Sender) current() *Targets {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.targets
}

// Send puts notices into the queues of the targets that want them.
func (s *Sender) Send(ctx context.Context, notices []policy.Notice) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range notices {
		n := &notices[i]
		var m *message
		for _, t := range s.targets.all {
			if !t.wants(n) || n.Repeated && now.Sub(time.Unix(0, int64(n.At))) > t.maxAge {
				continue
			}
			if m == nil {
				var err error
				if m, err = encode(n, s.targets.source, now); err != nil {
					klog.FromContext(ctx).Error(err, "Could not encode a notification", "namespace", n.Set.Namespace, "set", n.Set.Name)
					break
				}
			}
			if full, first := t.queue.add(m); full {
				s.count(t.name, ResultDropped)
				if first {
					klog.FromContext(ctx).Error(nil, "The queue of a target of notifications is full; dropping the oldest events of the namespaces with most until the target accepts some", "target", t.name)
				}
			}
		}
	}
}

// Run sends until ctx ends. What has not been sent then is lost; the next process repeats the newest event of each rollout that is active.
func (s *Sender) Run(ctx context.Context) {
	for ctx.Err() == nil {
		until, cancel := context.WithCancel(ctx)
		go func() {
			defer cancel()
			select {
			case <-s.changed:
			case <-until.Done():
			}
		}()
		s.run(until)
		cancel()
	}
}

// run sends to the current targets until ctx ends. A message that is being sent then stays in the queue, because its target may still be configured.
func (s *Sender) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, t := range s.current().all {
		running.Go(func() {
			defer t.client.CloseIdleConnections()
			all := failures{}
			for m := t.queue.next(ctx, s.clock, all); m != nil; m = t.queue.next(ctx, s.clock, all) {
				s.deliver(ctx, t, m, all)
			}
		})
	}
	running.Wait()
	<-ctx.Done() // also without a target
}

// failures are what is remembered of attempts of one target that have failed, for each namespace.
type failures map[string]*failure

// failure is that of the first message of a namespace.
type failure struct {
	// backoff is the delay before the next attempt, and due when that is.
	backoff wait.Backoff
	due     time.Time
	// text is why the last attempt has failed.
	text string
}

// deliver tries to send a message once. If that fails, the message is tried again until the target refuses it or it is too old: then it is the first one of its
// namespace again, and the namespace waits until its next attempt is due. Other namespaces do not wait, because the target may fail only for this message.
func (s *Sender) deliver(ctx context.Context, t *target, m *message, all failures) {
	log := klog.FromContext(ctx).WithValues("target", t.name, "type", m.kind, "subject", m.subject, "id", m.id)
	after, err := s.attempt(ctx, t, m)
	err = endpoint.WithoutAddress(err) // the log names the target
	left := t.maxAge - s.clock.Since(m.queued)
	refused := (*refusal)(nil)
	switch {
	case err == nil:
		t.queue.accepted()
		s.count(t.name, ResultSent)
		delete(all, m.namespace)
		return
	case ctx.Err() != nil:
		t.queue.putBack(m)
		return
	case errors.As(err, &refused) && refused.final() || left <= 0:
		log.Error(err, "Could not send a notification; giving up")
		s.count(t.name, ResultFailed)
		delete(all, m.namespace)
		return
	}
	of := all[m.namespace]
	if of == nil {
		of = &failure{backoff: s.backoff}
		all[m.namespace] = of
	}
	if text := err.Error(); text != of.text {
		log.Error(err, "Could not send a notification; trying again")
		of.text = text
	}
	of.due = s.clock.Now().Add(min(max(of.backoff.Step(), min(after, maxDelay)), left))
	t.queue.retry(m)
	s.count(t.name, ResultRetried)
}

// refusal is an answer other than success.
type refusal struct{ status int }

// Error implements error.
func (r *refusal) Error() string { return fmt.Sprintf("the target answers with status %d", r.status) }

// final reports whether the same event would get the same answer again. What an administrator can correct meanwhile, such as a token, is not final.
func (r *refusal) final() bool {
	switch r.status {
	case http.StatusBadRequest, http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	default:
		return false
	}
}

// attempt sends a message once. after is when the target wants the next attempt; 0 if it does not say.
func (s *Sender) attempt(ctx context.Context, t *target, m *message) (after time.Duration, err error) {
	keys, err := readKeys(t.keyFiles)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(m.body))
	if err != nil {
		return 0, fmt.Errorf("making the request: %w", err)
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("User-Agent", "everynode-manager")
	sign(r.Header, m, keys, s.clock.Now())
	response, err := t.client.Do(r)
	if err != nil {
		return 0, err
	}
	_ = response.Body.Close() // only the status counts, so nothing of the body is read
	if response.StatusCode/100 == 2 {
		return 0, nil
	}
	if wanted, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16); err == nil {
		after = time.Duration(wanted) * time.Second
	}
	return after, &refusal{response.StatusCode}
}
