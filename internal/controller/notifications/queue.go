// SPDX-License-Identifier: Apache-2.0

package notifications

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// maxQueue is how many messages wait for one target.
const maxQueue = 256

// queue keeps the messages of a target: those of a namespace in their order, and namespaces take turns, so that one with many rollouts delays and costs the others
// nothing. A work queue of client-go has neither a bound nor an order once an item is repeated.
type queue struct {
	// more has an element after a message was added.
	more chan struct{}

	mu sync.Mutex
	// of contains the messages of each namespace with messages, and turns contains these namespaces, the next one first.
	of    map[string][]*message
	turns []string
	// dropping reports whether a message was dropped since the target has last accepted one.
	dropping bool
}

func newQueue() *queue { return &queue{more: make(chan struct{}, 1), of: map[string][]*message{}} }

// add adds a message, and reports whether the queue was full; then the oldest message of the namespace with
// the most messages was dropped. first reports whether this is the first dropped message since the target has
// accepted one.
func (q *queue) add(m *message) (full, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.of[m.namespace]) == 0 {
		q.turns = append(q.turns, m.namespace)
	}
	q.of[m.namespace] = append(q.of[m.namespace], m)
	if full = q.size() > maxQueue; full {
		q.remove(q.largest())
		first, q.dropping = !q.dropping, true
	}
	select {
	case q.more <- struct{}{}:
	default:
	}
	return full, first
}

// size is the number of messages. The lock is held.
func (q *queue) size() (n int) {
	for _, messages := range q.of {
		n += len(messages)
	}
	return n
}

// largest returns the index in turns of the namespace with the most messages; if several have the same number, the one whose turn comes first.
func (q *queue) largest() (at int) {
	for i, namespace := range q.turns {
		if len(q.of[namespace]) > len(q.of[q.turns[at]]) {
			at = i
		}
	}
	return at
}

// remove takes the oldest message of a namespace, by its place among the turns. A namespace with another one keeps its turn.
func (q *queue) remove(at int) *message {
	namespace := q.turns[at]
	m := q.of[namespace][0]
	if q.of[namespace] = q.of[namespace][1:]; len(q.of[namespace]) == 0 {
		delete(q.of, namespace)
		q.turns = slices.Delete(q.turns, at, at+1)
	}
	return m
}

// next waits for the message of the namespace whose turn it is, and takes it; nil when ctx has ended. A namespace whose next attempt is not due yet has no turn.
func (q *queue) next(ctx context.Context, c clock.WithTicker, all failures) *message {
	for ctx.Err() == nil {
		m, after := q.take(c.Now(), all)
		if m != nil {
			return m
		}
		q.wait(ctx, c, after)
	}
	return nil
}

// wait waits until a message is added or the time has passed; with 0, only for a message.
func (q *queue) wait(ctx context.Context, c clock.WithTicker, after time.Duration) {
	var due <-chan time.Time
	if after > 0 {
		timer := c.NewTimer(after)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-q.more:
	case <-due:
	}
}

// take takes the message of the first namespace that does not wait for its next attempt. If there is none, after is when the next attempt is due; 0 for none.
func (q *queue) take(now time.Time, all failures) (m *message, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for at, namespace := range q.turns {
		if of := all[namespace]; of != nil && of.due.After(now) {
			if rest := of.due.Sub(now); after == 0 || rest < after {
				after = rest
			}
			continue
		}
		m := q.remove(at)
		if len(q.of[namespace]) > 0 {
			q.turns = append(slices.Delete(q.turns, at, at+1), namespace)
		}
		return m, 0
	}
	return nil, after
}

// putBack adds a message that was taken and not delivered, before all others.
func (q *queue) putBack(m *message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaveTurns(m.namespace)
	q.turns = slices.Insert(q.turns, 0, m.namespace)
	q.of[m.namespace] = slices.Insert(q.of[m.namespace], 0, m)
}

// retry adds a message that the target has not accepted, before all others of its namespace, whose turn comes after those of all others.
func (q *queue) retry(m *message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaveTurns(m.namespace)
	q.turns = append(q.turns, m.namespace)
	q.of[m.namespace] = slices.Insert(q.of[m.namespace], 0, m)
}

// leaveTurns takes a namespace out of the turns. The lock is held.
func (q *queue) leaveTurns(namespace string) {
	if at := slices.Index(q.turns, namespace); at >= 0 {
		q.turns = slices.Delete(q.turns, at, at+1)
	}
}

// accepted notes that the target has accepted a message.
func (q *queue) accepted() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropping = false
}
