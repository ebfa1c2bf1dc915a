// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/fleet"
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
				c.coming.remove(key)
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

// BenchmarkEnqueue is what an event costs beyond the index.
func BenchmarkEnqueue(b *testing.B) {
	c := New(Options{Clock: clock.RealClock{}})
	defer c.queue.ShutDown()
	keys := make([]fleet.Key, 20)
	for i := range keys {
		keys[i] = fleet.Key{Dialect: "native", Namespace: "ns", Name: fmt.Sprint("set-", i)}
	}
	go func() {
		for {
			key, stop := c.queue.Get()
			if stop {
				return
			}
			c.coming.remove(key)
			c.queue.Done(key)
		}
	}()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Enqueue(keys[i%len(keys)])
	}
}
