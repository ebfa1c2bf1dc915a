// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"
	"time"
)

// TestJudge: a history in which a node begins too early, too late or not at all is noticed.
func TestJudge(t *testing.T) {
	steps := []step{{"canary", []string{"a"}, 5 * time.Second}, {"half", []string{"b", "c"}, 3 * time.Second}, {"rest", []string{"d"}, 0}}
	// at makes a moment: the second, and the place in the order of all changes.
	at := func(second, version int) moment { return moment{uint64(version), time.Unix(int64(second), 0)} }
	for name, c := range map[string]struct {
		change func(h history)
		want   string
	}{
		"as planned":            {func(history) {}, ""},
		"soak too short":        {func(h history) { h.began["b"] = at(5, 3) }, "node b of wave half began 4s after the last node of wave canary was done, which soaks for 5s"},
		"before the wave":       {func(h history) { h.began["d"] = at(20, 5) }, "node d of wave rest began before all nodes of the steps before it were done"},
		"not begun":             {func(h history) { delete(h.began, "c") }, "node c of wave half has not begun"},
		"not done":              {func(h history) { delete(h.done, "c") }, "node c of wave half is not done"},
		"of no wave":            {func(h history) { h.began["x"] = at(1, 1) }, "node x is in no wave, and has begun"},
		"slow node of its wave": {func(h history) { h.done["b"] = at(9, 8) }, "node d of wave rest began 2s after the last node of wave half was done, which soaks for 3s"},
		"soak in an outage": {func(h history) { h.outages[0] = outage{time.Unix(2, 0), time.Unix(4, 0)} },
			"node b of wave half began 4s after the last node of wave canary was done, which soaks for 5s; node c of wave half began 4s after the last node of wave canary was done, which soaks for 5s"},
		"a long time afterwards": {func(h history) { h.began["d"] = at(500, 9) }, ""},
	} {
		h := history{
			began:   map[string]moment{"a": at(0, 1), "b": at(6, 3), "c": at(6, 4), "d": at(11, 9)},
			done:    map[string]moment{"a": at(1, 2), "b": at(7, 5), "c": at(8, 6), "d": at(12, 10)},
			outages: make([]outage, 1),
		}
		c.change(h)
		if got := strings.Join(h.judge(steps), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
