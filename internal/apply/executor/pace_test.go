// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/fleet"
)

// The tests run in virtual time, which testing/synctest makes.
func newPace() *Pace {
	return NewPace(clock.RealClock{}, func(ctx context.Context) error { return ctx.Err() }, Sleep)
}

func setKey(i int) fleet.Key { return fleet.Key{Namespace: "ns", Name: fmt.Sprint("set", i)} }

// hang is a request that ends with the context.
func hang(ctx context.Context) func() error {
	return func() error {
		<-ctx.Done()
		return ctx.Err()
	}
}

func nothing() {}

// A set with many writes does not hold up one with few, not even when those of the first never end.
func TestSetsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		ctx, cancel := context.WithCancel(t.Context())
		var hung sync.WaitGroup
		for range 500 {
			hung.Go(func() { _ = p.do(ctx, request{setKey(0), "delete", hang(ctx), nothing, nil}) })
		}
		synctest.Wait()
		if p.held != p.Window()-1 {
			t.Errorf("one set holds %d of %d", p.held, p.Window())
		}
		for range 100 {
			if err := p.do(ctx, request{setKey(1), "create", func() error { return nil }, nothing, nil}); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		hung.Wait()
		if p.held != 0 || len(p.order) != 0 || len(p.sets) != 0 {
			t.Errorf("left behind: %d held, order %v, sets %v", p.held, p.order, p.sets)
		}
	})
}

func TestTurnsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		var mu sync.Mutex
		var sent []string
		var all sync.WaitGroup
		ask := func(set, n int) {
			for range n {
				all.Go(func() {
					_ = p.do(t.Context(), request{setKey(set), "create", func() error {
						mu.Lock()
						sent = append(sent, setKey(set).Name)
						mu.Unlock()
						time.Sleep(10 * time.Millisecond)
						return nil
					}, nothing, nil})
				})
			}
			synctest.Wait()
		}
		ask(0, 1000)
		ask(1, 50)
		ask(2, 50)
		all.Wait()
		last := len(sent) - 1 - slices.Index(reversed(sent), "set1")
		if last > 250 {
			t.Errorf("the last of 50 writes of a set came after %d writes, of which others had two thirds at most", last)
		}
	})
}

func reversed(s []string) []string {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

// busyServer has room for some requests at once, and answers the others with 429.
type busyServer struct {
	room             int32
	now              atomic.Int32
	done, turnedAway atomic.Int32
}

func (s *busyServer) answer() error {
	defer s.now.Add(-1)
	if s.now.Add(1) > s.room {
		s.turnedAway.Add(1)
		return apierrors.NewTooManyRequests("too many requests", 1)
	}
	time.Sleep(10 * time.Millisecond)
	s.done.Add(1)
	return nil
}

// What a busy server turns away is sent again, and not much of it is.
func TestABusyServerGetsAllWritesInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, server := newPace(), &busyServer{room: 12}
		var busy, failed atomic.Int32
		for range 20 { // passes
			var pass sync.WaitGroup
			for i := range 250 {
				pass.Go(func() {
					if err := p.do(t.Context(), request{setKey(i % 5), "delete", server.answer, func() { busy.Add(1) }, nil}); err != nil {
						failed.Add(1)
					}
				})
			}
			pass.Wait()
		}
		if failed.Load() != 0 || server.done.Load() != 5000 {
			t.Errorf("%d failed, %d done", failed.Load(), server.done.Load())
		}
		if n := server.turnedAway.Load(); n == 0 || n > 1000 || n != busy.Load() {
			t.Errorf("%d turned away, %d told", n, busy.Load())
		}
		if w := p.Window(); w < 6 || w > 14 {
			t.Errorf("room for 12, window %d", w)
		}
	})
}

// What is not begun in time is left, but for the first of a pass; what was sent once, and turned away, is sent again.
func TestLateRequestsAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Executor{Pace: newPace(), Clock: clock.RealClock{}, Count: func(string, apply.Answer) {}}
		others, tries := true, 0
		s := e.slicedSender(&Job{Key: setKey(0), Others: func() bool { return others }})
		send := func() error { return s.send(t.Context(), "create", s.late, func() error { tries++; return nil }) }
		time.Sleep(2 * sliceTime)
		if err := send(); err != nil || tries != 1 {
			t.Errorf("the first: %v", err)
		}
		if err := send(); !errors.Is(err, errLate) || tries != 1 {
			t.Errorf("the second: %v", err)
		}
		others = false
		if err := send(); err != nil || tries != 2 {
			t.Errorf("while nobody waits: %v", err)
		}
		s, others, tries = e.slicedSender(&Job{Key: setKey(0), Others: func() bool { return others }}), true, 0
		err := s.send(t.Context(), "create", s.late, func() error {
			if tries++; tries < 4 {
				return apierrors.NewTooManyRequests("no room", 1)
			}
			return nil
		})
		if err != nil || tries != 4 {
			t.Errorf("%d tries, %v", tries, err)
		}
	})
}

// A server that never has room is given up after a while, and asked seldom.
func TestPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, server := newPace(), &busyServer{}
		began := time.Now()
		err := p.do(t.Context(), request{setKey(0), "create", server.answer, nothing, nil})
		if !apply.IsBusy(err) || time.Since(began) < patience-time.Second || server.turnedAway.Load() > 6 {
			t.Errorf("error %v after %v and %d tries", err, time.Since(began), server.turnedAway.Load())
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.do(ctx, request{setKey(0), "create", server.answer, nothing, nil}) }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

// The client neither waits for its own limit inside of a request, nor repeats it: both would hide how the server does.
func TestRequestsAreSentOnce(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "1") // as API Priority and Fairness does it
		http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
	}))
	defer server.Close()
	// A limit that lets nothing through.
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: 1e-9, Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	client.CoreV1().RESTClient().GetRateLimiter().Accept()
	pods := NewPods(client)
	pod := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "ns", "name": "p"}}}
	for name, send := range map[string]func(context.Context) error{
		"create": func(ctx context.Context) error { _, err := pods.Create(ctx, pod); return err },
		"delete": func(ctx context.Context) error { return pods.Delete(ctx, "ns", "p", "uid") },
		"get":    func(ctx context.Context) error { _, err := pods.Get(ctx, "ns", "p"); return err },
		"patch": func(ctx context.Context) error {
			_, err := pods.Patch(ctx, PodPatch{Namespace: "ns", Pod: "p", Of: dialect.Status, Body: []byte("{}")})
			return err
		},
	} {
		asked.Store(0)
		err := send(t.Context())
		if seconds, _ := apierrors.SuggestsClientDelay(err); !apply.IsBusy(err) || seconds != 1 || asked.Load() != 1 {
			t.Errorf("%s: asked %d times, error %v", name, asked.Load(), err)
		}
	}
}
