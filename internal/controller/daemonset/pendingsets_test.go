// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/clustercache"
)

// TestEventsOfABurstLeadToOnePass, no later than coalesce after the first of them, however many follow.
func TestEventsOfABurstLeadToOnePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Clock: clock.RealClock{}})
		defer c.queue.ShutDown()
		began := time.Now()
		taken := make(chan time.Duration)
		go func() {
			for {
				key, stop := c.queue.Get()
				if stop {
					close(taken)
					return
				}
				c.pending.remove(key)
				taken <- time.Since(began)
				c.queue.Done(key)
			}
		}()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range 2 * coalesce / time.Millisecond { // an event every millisecond
				c.Enqueue(setKey)
				time.Sleep(time.Millisecond)
			}
		}()
		if first := <-taken; first != coalesce {
			t.Errorf("the first pass came after %v, want %v", first, coalesce)
		}
		if second := <-taken; second > 2*coalesce+time.Millisecond {
			t.Errorf("what came after the first pass had begun led to a pass after %v only", second)
		}
		<-ended
		c.Enqueue(setKey)
		<-taken // an event after everything is not lost
	})
}

// A set whose decisions take long is looked at less often, and as often as others when they do not any more. One that took long among others that
// did not has waited for a processor.
func TestLongDecisionsComeSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Clock: clock.RealClock{}})
		defer c.queue.ShutDown()
		for _, step := range []struct{ took, want time.Duration }{
			{0, coalesce},
			{time.Millisecond, coalesce},
			{time.Second, coalesce},
			{time.Millisecond, coalesce},
			{6 * time.Millisecond, coalesce},
			{7 * time.Millisecond, 60 * time.Millisecond},
			{time.Second, 70 * time.Millisecond},
			{time.Second, longestCoalesce},
			{8 * time.Millisecond, 80 * time.Millisecond},
			{0, coalesce},
		} {
			c.pending.decided(setKey, step.took)
			began := time.Now()
			c.Enqueue(setKey)
			time.Sleep(time.Millisecond)
			c.Enqueue(setKey)
			key, _ := c.queue.Get()
			if got := time.Since(began); got != step.want {
				t.Errorf("after a decision of %v the next pass came after %v, want %v", step.took, got, step.want)
			}
			c.pending.remove(key)
			c.queue.Done(key)
		}
		if len(c.pending.took) != 0 {
			t.Errorf("kept: %v", c.pending.took)
		}
	})
}

// BenchmarkEnqueue is what an event costs beyond the index.
func BenchmarkEnqueue(b *testing.B) {
	c := New(Options{Clock: clock.RealClock{}})
	defer c.queue.ShutDown()
	keys := make([]clustercache.Key, 20)
	for i := range keys {
		keys[i] = clustercache.Key{Dialect: "native", Namespace: "ns", Name: fmt.Sprint("set-", i)}
	}
	go func() {
		for {
			key, stop := c.queue.Get()
			if stop {
				return
			}
			c.pending.remove(key)
			c.queue.Done(key)
		}
	}()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Enqueue(keys[i%len(keys)])
	}
}
