// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"testing"
)

// Messages that differ each time, such as those with an id of the request, make what is remembered of a set no larger.
func TestWhatIsReportedIsBounded(t *testing.T) {
	w := newWorld(t, 1, nil)
	workload := w.index.Workload(w.key)
	p := &pass{c: w.c, d: w.c.dialects["native"], key: w.key, w: workload, state: w.c.state(w.key, workload)}
	for i := range 10 * maxReported {
		p.recordEvent("Reason", fmt.Sprint("request ", i))
		w.allEvents()
	}
	if n := len(p.state.reported); n > maxReported {
		t.Errorf("%d messages are remembered", n)
	}
	p.recordEvent("Reason", "twice")
	w.allEvents()
	if p.recordEvent("Reason", "twice"); w.allEvents() != "" {
		t.Error("the same is said twice")
	}
	for i := range 10 * maxReasons {
		w.c.failures.isNew(w.key, fmt.Errorf("request %d", i))
	}
	if n := len(w.c.failures.reasons[w.key]); n > maxReasons+1 {
		t.Errorf("%d reasons are remembered", n)
	}
}
