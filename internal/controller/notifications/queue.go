// SPDX-License-Identifier: Apache-2.0

package notifications

import (
	"context"
	"sync"
)

// maxQueue is how many messages wait for one target.
const maxQueue = 256

// queue keeps the messages of a target in their order. A work queue of client-go has neither a bound nor an order once an item is repeated.
type queue struct {
	// more has an element after a message was added.
	more chan struct{}

	mu       sync.Mutex
	messages []*message
	// dropping is whether a message was dropped since the target has last accepted one.
	dropping bool
}

func newQueue() *queue { return &queue{more: make(chan struct{}, 1)} }

// add adds a message, and reports whether the queue was full, so that the oldest one was dropped. first is whether that was the first one since the target
// has accepted one.
func (q *queue) add(m *message) (full, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = append(q.messages, m)
	if full = len(q.messages) > maxQueue; full {
		q.messages = q.messages[1:]
		first, q.dropping = !q.dropping, true
	}
	select {
	case q.more <- struct{}{}:
	default:
	}
	return full, first
}

// next waits for the oldest message and takes it; nil when ctx has ended.
func (q *queue) next(ctx context.Context) *message {
	for ctx.Err() == nil {
		if m := q.take(); m != nil {
			return m
		}
		select {
		case <-ctx.Done():
		case <-q.more:
		}
	}
	return nil
}

func (q *queue) take() *message {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.messages) == 0 {
		return nil
	}
	m := q.messages[0]
	q.messages = q.messages[1:]
	return m
}

// accepted notes that the target has accepted a message.
func (q *queue) accepted() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropping = false
}
