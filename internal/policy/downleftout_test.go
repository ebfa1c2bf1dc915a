// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"
)

// A node that goes down because of the revision counts, also if the policy lets the waves go on without nodes that are down. If the update has not reached it, it does not count.
func TestANodeThatGoesDownAndIsLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		node  string
		fails bool
	}{"with the revision": {"a", true}, "without": {"d", false}} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, strings.NewReplacer("waves:", "unreachableAfter: 2m\nwaves:", "1m}]", "1m}, {name: rest, nodes: {percent: 100}, soak: 1h}]").Replace(judgedStrictly()))
			w.fails(c.node, hangs)
			w.node(c.node).Ready, w.node(c.node).Since = false, w.s.Now
			w.pass(time.Second)
			for range 20 {
				w.pass(30 * time.Second)
				w.roll()
				if f := w.last.Failure; f != nil && !strings.Contains(f.Message, "Wave canary failed: 1 of 3 nodes failed, and 0 may fail. Nodes: a (NodeNotReady).") {
					t.Errorf("it says %s", f.Message)
				}
			}
			if failed := w.last.Failure != nil; failed != c.fails {
				t.Errorf("failure %+v; %q have the revision", w.last.Failure, w.have(1))
			}
		})
	}
}

// Such a node counts also if it is the only one of its wave.
func TestTheOnlyNodeOfAWaveGoesDown(t *testing.T) {
	w := newWorld(t, strings.NewReplacer("waves:", "unreachableAfter: 2m\nwaves:", "count: 3", "count: 1").Replace(judgedStrictly()))
	w.pass(0)
	w.roll()
	w.pass(time.Second)
	w.fails("a", hangs)
	w.node("a").Ready, w.node("a").Since = false, w.s.Now
	w.pass(time.Second)
	w.pass(2 * time.Minute)
	w.wantNoFailure()
	w.pass(3 * time.Minute)
	if f := w.last.Failure; f == nil || !strings.Contains(f.Message, "1 of 1 nodes failed") {
		t.Errorf("failure %+v", f)
	}
}
