// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"sync"

	"everynode.dev/everynode/internal/fleet"
)

// coming are the sets whose pass has been asked for and has not begun. The queue knows them too, but to ask it costs more than to take
// in the event of a pod.
type coming struct {
	mu  sync.Mutex
	all map[fleet.Key]bool
}

// add is whether the set was not among them.
func (c *coming) add(key fleet.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[key] {
		return false
	}
	if c.all == nil {
		c.all = map[fleet.Key]bool{}
	}
	c.all[key] = true
	return true
}

func (c *coming) remove(key fleet.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, key)
}
