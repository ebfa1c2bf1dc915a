// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// Anyone who can reach the address of the webhooks may send reviews, because the API server presents no client
// certificate, and each review of a new template costs a request to the API server. So clients are served in turn, by
// their address: checksAtOnce templates are checked at once, and the number of waiting reviews of each client is
// limited.
const (
	checksAtOnce  = 8
	waitingChecks = 64
)

// tooManyWait is the error of a review that does not wait, because too many of its client do.
type tooManyWait struct{}

// Error implements error.
func (tooManyWait) Error() string { return "too many reviews of this client are waiting" }

// fairChecker is a TemplateChecker that serves the clients in turn.
type fairChecker struct {
	checker TemplateChecker
	turns   *turns
}

func newFairChecker(checker TemplateChecker) *fairChecker {
	return &fairChecker{checker: checker, turns: &turns{free: checksAtOnce, atMost: waitingChecks, waiting: map[string][]chan struct{}{}}}
}

// Check implements TemplateChecker.
func (f *fairChecker) Check(ctx context.Context, namespace string, template map[string]any) (Judgement, error) {
	if err := f.turns.enter(ctx, senderOf(ctx)); err != nil {
		return Judgement{}, fmt.Errorf("waiting for the check of the pod template, try again: %w", err)
	}
	defer f.turns.leave()
	return f.checker.Check(ctx, namespace, template)
}

type senderKey struct{}

// withSender stores the address of the client in the context of a review.
func withSender(ctx context.Context, r *http.Request) context.Context {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return context.WithValue(ctx, senderKey{}, host)
}

func senderOf(ctx context.Context) string {
	sender, _ := ctx.Value(senderKey{}).(string)
	return sender
}

// turns is a semaphore that serves clients in turn; the requests of one client are served in their order.
type turns struct {
	mu sync.Mutex
	// free is the number of free places, atMost the maximum number of waiting requests of one client.
	free, atMost int
	waiting      map[string][]chan struct{}
	// order are the clients with waiting requests, the next one first.
	order []string
}

func (t *turns) enter(ctx context.Context, sender string) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	if len(t.waiting[sender]) >= t.atMost {
		t.mu.Unlock()
		return tooManyWait{}
	}
	mine := make(chan struct{})
	if len(t.waiting[sender]) == 0 {
		t.order = append(t.order, sender)
	}
	t.waiting[sender] = append(t.waiting[sender], mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
		t.giveUp(sender, mine)
		return ctx.Err()
	}
}

// giveUp cancels a wait; if its turn has just come, the place is given to the next one.
func (t *turns) giveUp(sender string, mine chan struct{}) {
	t.mu.Lock()
	for i, other := range t.waiting[sender] {
		if other == mine {
			t.remove(sender, i)
			t.mu.Unlock()
			return
		}
	}
	t.mu.Unlock()
	t.leave()
}

// remove removes a waiting request of a client by its index.
func (t *turns) remove(sender string, i int) {
	t.waiting[sender] = append(t.waiting[sender][:i:i], t.waiting[sender][i+1:]...)
	if len(t.waiting[sender]) > 0 {
		return
	}
	delete(t.waiting, sender)
	for k, other := range t.order {
		if other == sender {
			t.order = append(t.order[:k:k], t.order[k+1:]...)
			return
		}
	}
}

func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		t.free++
		return
	}
	sender := t.order[0]
	next := t.waiting[sender][0]
	t.order = append(t.order[1:], sender) // after all others, if more of its requests wait
	t.remove(sender, 0)
	close(next)
}
