// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

var (
	sequences = flag.Int("sequences", 50, "how many stories are played")
	among     = flag.Int("among-others", 15, "how many stories are played in which others are at work in the cluster")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first story")
	failures  = flag.Int("failures", 3, "how many stories may fail until no more are told")
	patience  = flag.Duration("patience", 3*time.Hour, "in how much time of its own a cluster has to come to rest")
)

func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(klog.Logger{})   // a controller complains of much that is part of a story
	utilruntime.ErrorHandlers = nil // one of them slows down whoever complains too soon after the last complaint, by the clock of another bubble
	os.Exit(m.Run())
}

// The native controller takes nodes in random order, so it is asked several times what it makes of a step: until it does what ours does,
// and after some tries until it does what is accepted.
const (
	exactly = 10
	samples = 60
)

// parts is how many stories are told at once, at most.
const parts = 10

// enough are as many stories as have something of every kind in them.
const enough = 200

func TestSameEndState(t *testing.T) { stories(t, *sequences, false) }

// TestSameEndStateAmongOthers tells stories in which policies, webhooks and a quota stand before the API server, and a tenant has pods that look like
// those of the sets.
func TestSameEndStateAmongOthers(t *testing.T) { stories(t, *among, true) }

// stories tells so many stories, of as many parts at once as there are.
func stories(t *testing.T, n int, among bool) {
	count := &tally{kinds: kinds()}
	if among {
		count.kinds = kindsAmong()
	}
	t.Run("stories", func(t *testing.T) {
		for part := range parts {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for i := part; i < n && int(count.failed.Load()) < *failures; i += parts {
					seed := *firstSeed + uint64(i)
					a := newAuthor(seed)
					a.among = among
					tell(t, seed, a, count)
				}
			})
		}
	})
	t.Log(count.String())
	if n >= enough {
		count.check(t)
	}
}

// tell plays the story of a seed. It can be told again with -args -sequences 1 -seed N; the native controller may then act in another order.
func tell(t *testing.T, seed uint64, a *author, count *tally) {
	from, step := start(), a.first()
	var told []string
	for range 4 + a.IntN(8) {
		for _, act := range step {
			line := act.words
			if act.then > 0 {
				line += fmt.Sprintf(", and %s later", act.then)
			}
			told = append(told, line)
		}
		end := playBoth(t, from, step)
		if end.accepted == "" {
			count.failed.Add(1)
			t.Errorf("seed %d:\n  %s\n%s", seed, strings.Join(told, "\n  "), end)
			return
		}
		count.add(end)
		told = append(told, "(both come to rest: "+end.accepted+")")
		from = pick(a, end.native, end.ours)
		step = a.step()
	}
}

// playBoth lets both act on a state, the native controller again and again until it does what ours does, or what may be accepted.
func playBoth(t *testing.T, from *state, step []act) *ending {
	e := &ending{from: from, step: step, ours: play(t, ours, from, step)}
	for try := range samples {
		e.native = play(t, upstream, from, step)
		e.told, e.nativeOnOurs, e.oursOnTold, e.informed = nil, nil, nil, nil
		if e.ours == nil || e.native == nil {
			e.found = []mismatch{{topic{"all", "coming to rest"}, fmt.Sprint(e.native != nil), fmt.Sprint(e.ours != nil)}}
			return e
		}
		if e.found = see(from, e.native).compare(see(from, e.ours)); len(e.found) == 0 {
			if e.accepted = same; try > 0 {
				e.accepted = sameAgain
			}
			return e
		}
		if try < exactly {
			continue
		}
		if e.judge(t); e.accepted != "" {
			return e
		}
	}
	return e
}
