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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
)

// The tests run in virtual time, which testing/synctest makes.
func newPace() *Pace {
	return NewPace(clock.RealClock{}, func(ctx context.Context) error { return ctx.Err() }, Sleep)
}

func setKey(i int) clustercache.Key {
	return clustercache.Key{Namespace: "ns", Name: fmt.Sprint("set", i)}
}

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
			hung.Go(func() { _ = p.do(ctx, request{setKey(0), "delete", hang(ctx), nothing, nil, nil, nil}) })
		}
		synctest.Wait()
		if p.held != p.Window()-1 {
			t.Errorf("one set holds %d of %d", p.held, p.Window())
		}
		for range 100 {
			if err := p.do(ctx, request{setKey(1), "create", func() error { return nil }, nothing, nil, nil, nil}); err != nil {
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

// Two sets whose writes hang until they time out take the window down to 2, and would have both. A third one goes on all the same.
func TestSetsThatHangLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		ctx, cancel := context.WithCancel(t.Context())
		var hung sync.WaitGroup
		for i := range 400 {
			hung.Go(func() {
				for ctx.Err() == nil {
					_ = p.do(ctx, request{setKey(i % 2), "create", func() error {
						if err := Sleep(ctx, writeTimeout); err != nil {
							return err
						}
						return context.DeadlineExceeded
					}, nothing, nil, nil, nil})
				}
			})
		}
		time.Sleep(time.Minute)
		if w := p.Window(); w != 2 {
			t.Fatalf("the window is %d", w)
		}
		for range 10 {
			hung.Go(func() { _ = p.do(ctx, request{setKey(2), "create", hang(ctx), nothing, nil, nil, nil}) })
		}
		synctest.Wait()
		if all, third := p.held, p.sets[setKey(2)].held; all != 3 || third != 1 {
			cancel()
			hung.Wait()
			t.Fatalf("%d requests at once, %d of them of a third set: want one of each", all, third)
		}
		began := time.Now()
		for range 100 {
			if err := p.do(ctx, request{setKey(3), "create", func() error { time.Sleep(10 * time.Millisecond); return nil }, nothing, nil, nil, nil}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 10*time.Second { // a pause that the last time-out has brought, and a second of writes
			t.Errorf("100 writes of a set took %v while the writes of others hung", took)
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
					}, nothing, nil, nil, nil})
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
		var windows atomic.Int64 // the sum of those that the writes have seen
		for range 20 {           // passes
			var pass sync.WaitGroup
			for i := range 250 {
				pass.Go(func() {
					if err := p.do(t.Context(), request{setKey(i % 5), "delete", server.answer, func() { busy.Add(1) }, nil, nil, nil}); err != nil {
						failed.Add(1)
					}
					windows.Add(int64(p.Window()))
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
		// The window goes up and down all the time; where it is when the last write ends says nothing.
		if w := windows.Load() / 5000; w < 6 || w > 14 {
			t.Errorf("room for 12, window %d on average", w)
		}
	})
}

// What is not begun in time is left, but for the first of a pass; what was sent once, and turned away, is sent again.
func TestLateRequestsAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Executor{Pace: newPace(), Clock: clock.RealClock{}, Count: func(string, apply.Answer) {}}
		others, tries := true, 0
		slicedSender := func() sender {
			return sender{Executor: e, key: setKey(0), late: e.newSlice(func() bool { return others }).late}
		}
		s := slicedSender()
		send := func() error { return s.send(t.Context(), "create", func() error { tries++; return nil }) }
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
		s, others, tries = slicedSender(), true, 0
		err := s.send(t.Context(), "create", func() error {
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

// Requests wait for their turn while the lease is lost, as where the process stands still: of those none is sent, and nothing is learned of the
// server from that.
func TestNothingIsSentWithoutTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		var leads atomic.Bool
		leads.Store(true)
		p.Leads = leads.Load
		answer := make(chan struct{})
		var sent, notSent atomic.Int32
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				err := p.do(t.Context(), request{setKey(0), "delete", func() error { sent.Add(1); <-answer; return nil }, nothing, nil, nil, nil})
				if errors.Is(err, apply.ErrNotLeading) && apply.OfDelete(err) == apply.Busy && apply.OfCreate(err) == apply.Busy {
					notSent.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		before := sent.Load()
		leads.Store(false)
		close(answer)
		all.Wait()
		if before == 0 || before == 100 || sent.Load() != before || notSent.Load() != 100-before {
			t.Errorf("%d sent with the lease, %d without; %d were not sent", before, sent.Load()-before, notSent.Load())
		}
		leads.Store(true)
		if err := p.do(t.Context(), request{setKey(0), "delete", func() error { return nil }, nothing, nil, nil, nil}); err != nil || p.held != 0 {
			t.Errorf("with the lease again: %v, %d held", err, p.held)
		}
	})
}

// The lease is asked for last: a request that has waited for the limit of the client, or for a server that had no room, is not sent when it is lost by then.
func TestTheLeaseIsAskedForLast(t *testing.T) {
	for name, busy := range map[string]bool{"for the limit of the client": false, "for room": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leads, sent := true, 0
				lose := func() { leads = false }
				p := NewPace(clock.RealClock{}, func(context.Context) error {
					if !busy {
						lose()
					}
					return nil
				}, func(ctx context.Context, d time.Duration) error {
					lose()
					return Sleep(ctx, d)
				})
				p.Leads = func() bool { return leads }
				err := p.do(t.Context(), request{setKey(0), "delete", func() error {
					if sent++; busy {
						return apierrors.NewTooManyRequests("later", 1)
					}
					return nil
				}, nothing, nil, nil, nil})
				want := 0
				if busy {
					want = 1 // before the lease was lost
				}
				if sent != want || !errors.Is(err, apply.ErrNotLeading) {
					t.Errorf("sent %d times, want %d, error %v", sent, want, err)
				}
			})
		})
	}
}

// A server that never has room is given up after a while, and asked seldom.
func TestPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, server := newPace(), &busyServer{}
		began := time.Now()
		err := p.do(t.Context(), request{setKey(0), "create", server.answer, nothing, nil, nil, nil})
		if !apply.IsBusy(err) || time.Since(began) < patience-time.Second || server.turnedAway.Load() > 6 {
			t.Errorf("error %v after %v and %d tries", err, time.Since(began), server.turnedAway.Load())
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.do(ctx, request{setKey(0), "create", server.answer, nothing, nil, nil, nil}) }()
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
		"delete": func(ctx context.Context) error { return pods.Delete(ctx, "ns", "p", metav1.Preconditions{}) },
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

// TestTurnsComeInTheOrderOfBeginning: what a plan has first goes first, however fast each goroutine is, and the one that may go although it is late is
// the first of them.
func TestTurnsComeInTheOrderOfBeginning(t *testing.T) {
	const all = 200
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		var wg sync.WaitGroup
		var granted, sent []int
		for i := range all {
			sender{}.inTurn(&wg, func(e sender) {
				time.Sleep(time.Duration(all-i) * time.Millisecond)
				_ = p.do(t.Context(), request{setKey(0), "delete", func() error { return nil }, nothing, func() bool { granted = append(granted, i); return false }, nil, e.queued})
			})
		}
		wg.Wait()
		if len(granted) != all || !slices.IsSorted(granted) {
			t.Errorf("the order is %v", granted)
		}
		s := &slice{clock: p.clock, began: p.clock.Now().Add(-time.Hour), others: func() bool { return true }}
		for i := range all {
			sender{}.inTurn(&wg, func(e sender) {
				_ = p.do(t.Context(), request{setKey(0), "delete", func() error { sent = append(sent, i); return nil }, nothing, s.late, nil, e.queued})
			})
		}
		wg.Wait()
		if !slices.Equal(sent, []int{0}) || p.held != 0 || len(p.sets) != 0 {
			t.Errorf("late is all but %v, with %d under way, of %d sets", sent, p.held, len(p.sets))
		}
	})
}
