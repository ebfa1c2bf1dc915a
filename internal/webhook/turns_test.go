// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// slowChecker takes a second for each template, as an API server whose clients may ask only so often, and notes the namespaces.
type slowChecker struct {
	mu     sync.Mutex
	served []string
}

func (s *slowChecker) Check(_ context.Context, namespace string, template map[string]any) (Judgement, error) {
	time.Sleep(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = append(s.served, namespace)
	return Judgement{Defaulted: template}, nil
}

// TestAFloodOfReviewsKeepsNobodyOut: somebody sends 800 reviews at once, and the API server one after them, which is answered in the second turn.
func TestAFloodOfReviewsKeepsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowChecker{}
		handler := &mutator{newFairChecker(slow)}
		send := func(from, namespace string) (allowed bool) {
			r := request(admissionv1.Create, agent, "")
			r.Namespace = namespace
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			return handler.Handle(withSender(ctx, &http.Request{RemoteAddr: from}), r).Allowed
		}
		var flood sync.WaitGroup
		for range 800 {
			flood.Go(func() { send("10.0.0.9:1234", "flood") })
		}
		synctest.Wait()
		began := time.Now()
		if !send("192.168.0.1:4321", "agents") {
			t.Error("the honest review was refused")
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the honest review was answered after %s", took)
		}
		flood.Wait()
		if len(slow.served) > 1+checksAtOnce+waitingChecks {
			t.Errorf("%d templates were checked, more than may wait", len(slow.served))
		}
		turns := handler.checker.(*fairChecker).turns
		if turns.free != checksAtOnce || len(turns.waiting)+len(turns.order) > 0 {
			t.Errorf("in the end %d are free, and %v wait", turns.free, turns.order)
		}
	})
}

// TestWhoGivesUpLeavesHisTurnToOthers, whether it has come or not.
func TestWhoGivesUpLeavesHisTurnToOthers(t *testing.T) {
	turns := &turns{free: 1, atMost: 2, waiting: map[string][]chan struct{}{}}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := turns.enter(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := turns.enter(over, "b"); err == nil {
			t.Error("b has entered, and a has not left")
		}
	}
	turns.leave()
	if turns.free != 1 || len(turns.waiting)+len(turns.order) > 0 {
		t.Errorf("%d are free, %v wait", turns.free, turns.order)
	}
	turns.giveUp("c", make(chan struct{})) // the turn of c had come
	if turns.free != 2 {
		t.Errorf("%d are free", turns.free)
	}
}
