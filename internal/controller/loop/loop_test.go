// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

// TestSlowPassesDelayNoOtherGroup: passes of one namespace that do not end, as with a webhook that hangs, leave workers for the keys of another, and when
// they have ended there are as many workers as before.
func TestSlowPassesDelayNoOtherGroup(t *testing.T) {
	const workers, slow = 4, 20
	clock := testingclock.NewFakeClock(time.Unix(0, 0))
	release, other := make(chan struct{}), make(chan string, 1)
	var mu sync.Mutex
	begun, most, now := 0, 0, 0
	l := New("test", clock, func(_ context.Context, key string) (time.Duration, error) {
		if !strings.HasPrefix(key, "slow/") {
			other <- key
			return 0, nil
		}
		mu.Lock()
		begun++
		now++
		most = max(most, now)
		mu.Unlock()
		<-release
		mu.Lock()
		now--
		mu.Unlock()
		return 0, nil
	})
	l.Group = func(key string) string { namespace, _, _ := strings.Cut(key, "/"); return namespace }
	for i := range slow {
		l.queue.Add(fmt.Sprint("slow/", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { l.Run(ctx, workers) })
	l.queue.Add("other/a")
	deadline := time.After(30 * time.Second)
	for got := ""; got == ""; {
		select {
		case got = <-other:
		case <-deadline:
			t.Fatalf("the key of another namespace gets no pass while %d of one namespace do not end", begun)
		case <-time.After(time.Millisecond):
			clock.Step(time.Second)
		}
	}
	close(release)
	for ended := false; !ended; {
		<-time.After(time.Millisecond)
		clock.Step(time.Second)
		mu.Lock()
		ended = begun == slow && now == 0
		mu.Unlock()
	}
	cancel()
	done.Wait()
	if most > slowOfGroup+workers || l.slowAll != 0 || len(l.slow) != 0 {
		t.Errorf("%d passes of the namespace ran at once; at the end %d are slow", most, l.slowAll)
	}
}

// TestSlowPassesAreBounded: no more workers start than slowAtAll.
func TestSlowPassesAreBounded(t *testing.T) {
	l := New("test", testingclock.NewFakeClock(time.Unix(0, 0)), func(context.Context, int) (time.Duration, error) { return 0, nil })
	for i := range slowAtAll {
		if !l.enter("") {
			t.Fatalf("slow pass %d gets no worker in its place", i)
		}
	}
	if l.enter("") {
		t.Error("there is one more")
	}
	l.leave("")
	if !l.enter("") {
		t.Error("after one has ended, there is no room")
	}
}
