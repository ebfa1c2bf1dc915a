// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"sync"
	"time"

	"everynode.dev/everynode/internal/clustercache"
)

// coalesce is how long a set waits after its first event before it is looked at, so that the events of one burst lead to
// one pass; a set whose decisions take long waits for restFactor times as long as they take, or for longestCoalesce. So events that never end, as when a zone comes
// back, cost no more than a tenth of a core for each set, whatever its size. The faster of the last two decisions determines this delay, because one decision
// may have waited for a processor or for the index. Later events never delay the processing of an event.
const (
	coalesce        = 20 * time.Millisecond
	restFactor      = 10
	longestCoalesce = 250 * time.Millisecond
)

// pendingSets are the sets with a requested pass that has not begun. The queue knows them too, but asking it costs more than processing the event of a pod.
type pendingSets struct {
	mu  sync.Mutex
	all map[clustercache.Key]bool
	// took contains the durations of the last two decisions of a set, if the last one requires a wait longer than coalesce.
	took map[clustercache.Key][2]time.Duration
}

// add reports whether the set was not among them, and when its pass is to begin.
func (c *pendingSets) add(key clustercache.Key) (in time.Duration, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[key] {
		return 0, false
	}
	if c.all == nil {
		c.all = map[clustercache.Key]bool{}
	}
	c.all[key] = true
	took := c.took[key]
	return min(max(coalesce, restFactor*min(took[0], took[1])), longestCoalesce), true
}

func (c *pendingSets) remove(key clustercache.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, key)
}

// decided notes how long a decision for a set has taken; 0 for a set that is gone.
func (c *pendingSets) decided(key clustercache.Key, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if restFactor*took <= coalesce {
		delete(c.took, key)
		return
	}
	if c.took == nil {
		c.took = map[clustercache.Key][2]time.Duration{}
	}
	c.took[key] = [2]time.Duration{c.took[key][1], took}
}
