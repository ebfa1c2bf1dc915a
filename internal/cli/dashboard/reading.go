// SPDX-License-Identifier: Apache-2.0

package dashboard

import "time"

// readingWait is how long a frame waits for details. An API server that is well answers sooner.
const readingWait = 300 * time.Millisecond

// reading is what a page reads from the API server from time to time. If that takes long, the page continues with what was read before. One goroutine at a time uses it.
type reading[T any] struct {
	last *T
	// began is when the last read began; pending receives its result, and is nil after that.
	began   time.Time
	pending chan *T
}

// get returns what was read last, nil if nothing was read yet. read reads; late is called when a result comes for which no frame waits any more.
func (r *reading[T]) get(now time.Time, read func() *T, late func()) *T {
	wait := time.Duration(0)
	if r.pending == nil && (r.last == nil || now.Sub(r.began) >= detailsPace) {
		pending, begin := make(chan *T, 1), time.Now()
		r.pending, r.began, wait = pending, now, readingWait
		go func() {
			pending <- read()
			if time.Since(begin) >= readingWait {
				late()
			}
		}()
	}
	if r.pending == nil {
		return r.last
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case r.last = <-r.pending:
		r.pending = nil
	case <-timer.C:
	}
	return r.last
}
