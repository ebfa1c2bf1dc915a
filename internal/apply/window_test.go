// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"everynode.dev/everynode/internal/rollout"
)

func TestLoads(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want Load
	}{
		"no error":                      {nil, Bears},
		"403":                           {apierrors.NewForbidden(pods, "p", errors.New("quota")), Unknown},
		"404":                           {apierrors.NewNotFound(pods, "p"), Unknown},
		"408":                           {answered(http.StatusRequestTimeout), Strains},
		"429, no room":                  {apierrors.NewTooManyRequests("later", 1), Strains},
		"429, of a webhook":             {answered(http.StatusTooManyRequests), Unknown},
		"500, of a webhook":             {apierrors.NewInternalError(errors.New("failed calling webhook")), Unknown},
		"500, the storage is not there": {apierrors.NewServerTimeout(pods, "create", 2), Strains},
		"503":                           {apierrors.NewServiceUnavailable("no"), Strains},
		"504":                           {apierrors.NewTimeoutError("late", 1), Strains},
		"nobody listens":                {broken("dial", syscall.ECONNREFUSED), Strains},
		"connection reset":              {broken("read", syscall.ECONNRESET), Strains},
		"own deadline":                  {context.DeadlineExceeded, Strains},
		"own end":                       {context.Canceled, Unknown},
	} {
		for _, err := range []error{test.err, wrapped(test.err)} {
			if got := LoadOf(err); got != test.want {
				t.Errorf("%s, %v: %d, want %d", name, err, got, test.want)
			}
		}
	}
}

// server is one that a Window is used on, in virtual time.
type server struct {
	chance *rand.Rand
	window *Window
	now    rollout.Time
	ends   []answer // sorted by time
	// base is how long a write takes when the server has room for it.
	base time.Duration
	// room is for how many writes it has room; more make all of them slower, or are answered with 429 when it refuses.
	room    int
	refuses bool
	// load says what the server answers otherwise; nil for nothing special.
	load func() Load
	// wanted is how many writes there are to be sent at any time.
	wanted int

	done, refused, peak int
}

type answer struct {
	at   rollout.Time
	sent Sent
	load Load
}

func newServer(seed uint64) *server {
	return &server{
		chance: rand.New(rand.NewPCG(seed, seed)), window: NewWindow(250), now: 1e18, base: 40 * time.Millisecond, room: 1000, wanted: 1000,
	}
}

func (s *server) send() {
	load, took := Bears, float64(s.base)*(1+s.chance.Float64()/5)
	switch busy := len(s.ends) + 1; {
	case s.load != nil && s.load() == Strains:
		load = Strains
	case busy <= s.room:
	case s.refuses:
		load, took = Strains, took/10
	default:
		took *= float64(busy) / float64(s.room)
	}
	a := answer{at: s.now.Add(time.Duration(took)), sent: s.window.Send("create", s.now), load: load}
	i, _ := slices.BinarySearchFunc(s.ends, a, func(x, y answer) int { return int(x.at.Sub(y.at)) })
	s.ends = slices.Insert(s.ends, i, a)
	s.peak = max(s.peak, len(s.ends))
}

// run lets that much time go by.
func (s *server) run(d time.Duration) {
	for end := s.now.Add(d); s.now < end; {
		for len(s.ends) < min(s.window.Size(), s.wanted) && s.window.Closed(s.now) <= 0 {
			s.send()
		}
		if len(s.ends) == 0 {
			s.now = min(end, s.now.Add(max(s.window.Closed(s.now), time.Millisecond)))
			continue
		}
		a := s.ends[0]
		s.ends = s.ends[1:]
		s.now = max(s.now, a.at)
		s.window.Answered(a.sent, a.load, s.now)
		if a.load == Bears {
			s.done++
		} else {
			s.refused++
		}
	}
}

// sizes are those that the window has during that time.
func (s *server) sizes(d time.Duration) (least, most int) {
	least, most = s.window.Size(), s.window.Size()
	for end := s.now.Add(d); s.now < end; {
		s.run(5 * time.Millisecond)
		least, most = min(least, s.window.Size()), max(most, s.window.Size())
	}
	return least, most
}

func TestWindowFollowsWhatTheServerHasRoomFor(t *testing.T) {
	for seed := range uint64(3) {
		for _, room := range []int{3, 10, 40, 100, 200} {
			s := newServer(seed)
			s.room, s.refuses = room, true
			s.run(20 * time.Second)
			s.done, s.refused = 0, 0
			least, most := s.sizes(10 * time.Second)
			if least < room/2 || most > room+2 {
				t.Errorf("room for %d: the window is between %d and %d", room, least, most)
			}
			if share := float64(s.refused) / float64(s.done); share > 0.5 || room >= 40 && share > 0.02 {
				t.Errorf("room for %d: %d writes are refused and %d done", room, s.refused, s.done)
			}
			if best := float64(room) * 10 / 0.044; float64(s.done) < best/2 {
				t.Errorf("room for %d: %d writes done, of %.0f", room, s.done, best)
			}
			s.room = 1000
			if s.run(20 * time.Second); s.window.Size() != 250 {
				t.Errorf("room for %d, then for all: %d", room, s.window.Size())
			}
		}
	}
}

func TestWindowFollowsTheTimeThatAnswersTake(t *testing.T) {
	for seed := range uint64(3) {
		for _, room := range []int{2, 10, 40, 100, 150} {
			s := newServer(seed)
			s.room = room
			s.run(20 * time.Second)
			s.done = 0
			least, most := s.sizes(10 * time.Second)
			if least < room || least < idleQueue || most > room+longQueue+1 {
				t.Errorf("room for %d: the window is between %d and %d", room, least, most)
			}
			// What can be done is done: it never falls below what keeps the server at work.
			if best := float64(room) * 10 / 0.044; float64(s.done) < 0.95*best {
				t.Errorf("room for %d: %d writes done, of %.0f", room, s.done, best)
			}
			s.room = 1000
			if s.run(20 * time.Second); s.window.Size() != 250 {
				t.Errorf("room for %d, then for all: %d", room, s.window.Size())
			}
		}
	}
}

// A healthy server is never slowed: neither when it is far away, nor when it moves away, nor by a refusal now and then.
func TestWindowOfAHealthyServer(t *testing.T) {
	for name, change := range map[string]func(*server){
		"near":                    func(*server) {},
		"far":                     func(s *server) { s.base = 400 * time.Millisecond },
		"slower for all, at once": func(s *server) { s.run(time.Second); s.base *= 10 },
		"a refusal now and then": func(s *server) {
			n := 0
			s.load = func() Load {
				if n++; n%5000 == 0 {
					return Strains
				}
				return Bears
			}
		},
	} {
		s := newServer(1)
		change(s)
		s.run(30 * time.Second)
		if least, _ := s.sizes(10 * time.Second); least < idleQueue {
			t.Errorf("%s: %d at once", name, least)
		}
	}
}

// The window is not taken for larger than what was tried.
func TestWindowDoesNotGrowUnused(t *testing.T) {
	s := newServer(1)
	s.wanted = 10
	if s.run(time.Minute); s.window.Size() != idleQueue {
		t.Errorf("10 writes at once: the window is %d", s.window.Size())
	}
}

// A server that is away is asked less and less often, and found when it is back.
func TestWindowWhileTheServerIsAway(t *testing.T) {
	for seed := range uint64(3) {
		s := newServer(seed)
		s.run(5 * time.Second)
		s.load = func() Load { return Strains }
		s.run(30 * time.Second)
		s.refused = 0
		if s.run(time.Minute); s.window.Size() != leastWindow || s.refused == 0 || s.refused > 40 {
			t.Errorf("away: the window is %d, and %d writes were tried in a minute", s.window.Size(), s.refused)
		}
		s.load = nil
		s.run(maxPause + 20*time.Second)
		if s.window.Size() != 250 {
			t.Errorf("back: the window is %d", s.window.Size())
		}
	}
}

// What fails together is one reason to shrink, and what was sent before says nothing of the smaller window.
func TestOneCutForAllThatWereUnderWay(t *testing.T) {
	w := NewWindow(250)
	var all []Sent
	for range 32 {
		all = append(all, w.Send("create", 1))
	}
	for _, s := range all {
		w.Answered(s, Strains, 2)
	}
	if w.Size() != 16 || w.Closed(2) > 0 {
		t.Errorf("size %d, closed for %v", w.Size(), w.Closed(2))
	}
	w.Answered(w.Send("create", 3), Strains, 4)
	if w.Size() != 8 || w.Closed(4) != firstPause {
		t.Errorf("after a second cut: size %d, closed for %v", w.Size(), w.Closed(4))
	}
	w.Answered(w.Send("create", 5), Bears, 6)
	w.Answered(w.Send("create", 7), Strains, rollout.Time(time.Hour))
	if w.Size() != 4 || w.Closed(rollout.Time(time.Hour)) > 0 {
		t.Errorf("after a good answer and a cut: size %d, closed for %v", w.Size(), w.Closed(rollout.Time(time.Hour)))
	}
}

// Whatever is answered, a few writes may go, no later than after the longest pause.
func TestWindowNeverStarves(t *testing.T) {
	for seed := range uint64(10) {
		s := newServer(seed)
		s.room = 1 + s.chance.IntN(300)
		bad := s.chance.Float64()
		s.load = func() Load {
			if s.chance.Float64() < bad {
				return Strains
			}
			return Bears
		}
		for range 100 {
			s.base = time.Duration(1 + s.chance.IntN(int(time.Second)))
			s.run(time.Second)
			if w := s.window; w.Size() < leastWindow || w.Size() > 250 || w.Closed(s.now) > maxPause || s.peak > 250 {
				t.Fatalf("seed %d: size %d, closed for %v", seed, w.Size(), w.Closed(s.now))
			}
		}
		if s.done == 0 && bad < 0.9 {
			t.Errorf("seed %d, %.0f%% bad: nothing done", seed, 100*bad)
		}
	}
}

// The fastest answer is forgotten when it is long ago: the server may have moved.
func TestTheFastestAnswerIsForgotten(t *testing.T) {
	w := NewWindow(10)
	for i, step := range []struct {
		at, took time.Duration
		want     float64
	}{
		{remember * 2, 10, 1}, {remember*2 + 1, 20, 0.5}, {remember*3 + 2, 20, 0.5}, {remember*4 + 3, 20, 1}, {remember*4 + 4, 5, 1}, {remember*4 + 5, 20, 0.25},
	} {
		if got := w.share("create", step.took, rollout.Time(step.at)); got != step.want {
			t.Errorf("%d: %v, want %v", i, got, step.want)
		}
	}
}

func TestVerbsAreNotComparedWithEachOther(t *testing.T) {
	w := NewWindow(250)
	now := rollout.Time(1e18)
	for range 500 {
		var all []Sent
		for i := range w.Size() {
			all = append(all, w.Send(fmt.Sprint("verb", i%2), now))
		}
		for i, s := range all {
			w.Answered(s, Bears, now.Add(time.Duration(1+i%2*20)*time.Millisecond))
		}
		now = now.Add(time.Second)
	}
	if w.Size() != 250 {
		t.Errorf("size %d", w.Size())
	}
}
