// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"fmt"
	"math/rand"
	"reflect"
	"testing"
	"time"
)

// TestRandomWalks lets an imaginary node live through what may happen to it, and checks each decision. In the end the
// registry works, and everything that can succeed has to.
func TestRandomWalks(t *testing.T) {
	walks := 300
	if testing.Short() {
		walks = 150
	}
	for seed := range walks {
		walk(t, rand.New(rand.NewSource(int64(seed))), seed)
	}
}

func walk(t *testing.T, r *rand.Rand, seed int) {
	play := newPlayer()
	play.snap.Limits = Limits{Pulls: r.Intn(4), FillPercent: 85}
	for range 60 {
		for range 1 + r.Intn(3) {
			happen(play, r)
		}
		decide(t, play, r)
	}
	play.snap.Facts.Down, play.snap.Facts.Fill = "", Fill{}
	for step := 0; ; step++ {
		open := 0
		for _, s := range decide(t, play, r).Memory.States {
			if !s.Final() {
				open++
			}
		}
		if open == 0 {
			break
		}
		if step > 200 {
			t.Fatalf("seed %d: %d wants never end\n%s", seed, open, describe(Decide(play.snapshot())))
		}
		for _, run := range play.runs {
			play.end(run.Ref, Done, "id-"+run.Ref)
		}
		play.snap.Now = play.snap.Now.Add(LongestPause)
	}
	for key, n := range play.pulled {
		if n > 1 {
			t.Fatalf("seed %d: %v was pulled %d times", seed, key, n)
		}
	}
	for _, w := range play.snap.Wants {
		if n := play.failed[w.Key]; n > w.retries()+1 {
			t.Fatalf("seed %d: %v has failed %d times, with %d retries", seed, w.Key, n, w.retries())
		}
	}
}

// decide checks that the decision depends on nothing but the snapshot, and on no order in it.
func decide(t *testing.T, play *player, r *rand.Rand) Plan {
	t.Helper()
	s, kept := play.snapshot(), play.snapshot()
	p := Decide(s)
	if !reflect.DeepEqual(s, kept) {
		t.Fatalf("Decide has changed its snapshot\n%+v\n%+v", kept, s)
	}
	assertGood(t, s, p)
	r.Shuffle(len(s.Wants), func(i, j int) { s.Wants[i], s.Wants[j] = s.Wants[j], s.Wants[i] })
	r.Shuffle(len(s.Facts.Runs), func(i, j int) { s.Facts.Runs[i], s.Facts.Runs[j] = s.Facts.Runs[j], s.Facts.Runs[i] })
	r.Shuffle(len(s.Memory.States), func(i, j int) {
		s.Memory.States[i], s.Memory.States[j] = s.Memory.States[j], s.Memory.States[i]
	})
	if again := Decide(s); !same(p, again) {
		t.Fatalf("another order, another decision:\n%s\n%s", describe(p), describe(again))
	}
	play.follow(p)
	return p
}

// happen is one thing that happens to the node.
func happen(play *player, r *rand.Rand) {
	ref := fmt.Sprintf("r%d", r.Intn(4))
	switch n := r.Intn(20); {
	case n < 4:
		wish(play, r, ref)
	case n < 5 && len(play.snap.Wants) > 0:
		gone := play.snap.Wants[r.Intn(len(play.snap.Wants))].Key
		play.snap.Wants = without(play.snap.Wants, gone)
		delete(play.pulled, gone)
		delete(play.failed, gone)
	case n < 9:
		play.end(ref, Done, "id-"+ref)
	case n < 13:
		play.end(ref, Failed, "no such image")
	case n < 14:
		play.end(ref, Lost, "connection reset")
	case n < 15:
		_ = play.do([]string{"restart", "restart", "anew", "vanish"}[r.Intn(4)])
	case n < 16:
		play.snap.Facts.Fill = Fill{Known: r.Intn(4) > 0, Percent: r.Intn(100)}
	case n < 17:
		play.snap.Facts.Down = []string{"", "no socket"}[r.Intn(2)]
	case n < 18:
		delete(play.snap.Facts.Present, ref)
	default:
		play.snap.Now = play.snap.Now.Add(time.Duration(r.Intn(20000)) * time.Millisecond)
	}
	for i := range play.runs { // a run that was cancelled ends soon
		if play.runs[i].Cancelled != NotCancelled && r.Intn(2) == 0 {
			play.end(play.runs[i].Ref, Failed, "canceled")
		}
	}
}

// wish adds a want of any kind; wants for one reference differ in name, version and policy.
func wish(play *player, r *rand.Rand, ref string) {
	version := r.Intn(3)
	w := Want{
		Key: Key{Image: ref, Tag: fmt.Sprintf("t%d", r.Intn(2)), Version: int64(version)},
		Ref: ref, Always: r.Intn(3) == 0, Retries: version - 1,
		Timeout: time.Duration(r.Intn(3)) * 10 * time.Second, Deadline: time.Duration(max(0, r.Intn(90)-60)) * time.Second,
	}
	if r.Intn(2) == 0 {
		w.Asked = play.snap.Now
	}
	if r.Intn(20) == 0 {
		w.Invalid = "not an image"
	}
	play.snap.Wants = append(without(play.snap.Wants, w.Key), w)
}

func without(wants []Want, key Key) []Want {
	kept := []Want{}
	for _, w := range wants {
		if w.Key != key {
			kept = append(kept, w)
		}
	}
	return kept
}

func TestPauseDoublesUpTo30Seconds(t *testing.T) {
	for i, seconds := range []float64{1, 2, 4, 8, 16, 30, 30} {
		if got := Pause(i + 1).Seconds(); got != seconds {
			t.Errorf("after try %d the pause is %vs, not %vs", i+1, got, seconds)
		}
	}
	if got := Pause(1 << 40); got != LongestPause {
		t.Errorf("after very many tries the pause is %v", got)
	}
}

// A runtime that dies of one image must not be killed by it for ever.
func TestLossesAreFreeOnlySoOften(t *testing.T) {
	play := newPlayer()
	play.snap.Wants = []Want{{Key: Key{Image: "a", Tag: "1"}, Ref: "a:1"}}
	for losses := 0; ; losses++ {
		p := Decide(play.snapshot())
		assertGood(t, play.snapshot(), p)
		play.follow(p)
		if s := p.Memory.States[0]; s.Final() {
			if losses != FreeLosses+1 || s.Message != "connection reset" {
				t.Errorf("after %d losses it is %+v", losses, s)
			}
			return
		}
		if losses > FreeLosses {
			t.Fatalf("%d losses, and no end", losses)
		}
		play.snap.Now = play.snap.Now.Add(LongestPause)
		play.follow(Decide(play.snapshot()))
		play.end("a:1", Lost, "connection reset")
	}
}

func TestExpires(t *testing.T) {
	done := State{Phase: Succeeded, Completed: instant(5 * time.Second)}
	if at, ok := done.Expires(10 * time.Second); !ok || at != instant(15*time.Second) {
		t.Errorf("a want that ended at 5s and is kept for 10s expires at %v (%v)", at, ok)
	}
	if _, ok := (&State{Phase: Pulling}).Expires(0); ok {
		t.Error("a want that has not ended expires")
	}
}
