// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBudgetHoldsWhenTheUpdateTakesNodesDown: whatever way an update takes its nodes down, and whatever the clocks of the nodes say, it
// takes down no more of them than the budget allows, although nodes that are not ready are left out.
func TestBudgetHoldsWhenTheUpdateTakesNodesDown(t *testing.T) {
	for _, how := range []string{"fatal v2", "deadly v1", "linger 4s; deadly v1", "set external; linger 4s; deadly v1", "set external; fatal v2"} {
		for _, skew := range []string{"0s", "-20s", "-1s", "3s", "20s"} {
			for _, silent := range []string{"0s", "2s", "29s", "45s"} {
				for every := 1; every <= 9; every += 4 { // decides only so many seconds
					name := fmt.Sprintf("%s skew %s silent %s every %d", how, skew, silent, every)
					t.Run(name, func(t *testing.T) {
						w := build(t, "set skip blame=30s max-unavailable=2 min-ready=5s", six()...)
						describe(t, w, append(strings.Split(how, "; "), "skew "+skew, "silent "+silent)...)
						w.pass(t, 150, every)
						if len(w.harmed) != 2 {
							t.Errorf("%v went down, want 2: as many as are needed to see that it does harm", w.harmed)
						}
					})
				}
			}
		}
	}
}

// TestHarmIsSeen: the test above can fail. Without a blame window nothing stops the harm that comes later than the resolution
// of the times.
func TestHarmIsSeen(t *testing.T) {
	w := build(t, "set skip blame=0s max-unavailable=2 min-ready=5s", six()...)
	describe(t, w, "fatal v2", "skew 5s")
	w.pass(t, 150, 1)
	if len(w.harmed) <= 2 {
		t.Errorf("only %v went down", w.harmed)
	}
}

// TestCutNodesStopNothing: nodes that were cut before the update, or long after it touched them, use no budget; the rest is updated, and
// they follow when they come back.
func TestCutNodesStopNothing(t *testing.T) {
	w := build(t, "set skip blame=10s max-unavailable=1", six()...)
	describe(t, w, "cut a b")
	w.pass(t, 40, 1)
	if old := w.old(); !slices.Equal(old, []string{"a", "b"}) {
		t.Fatalf("%v are old, want those that were cut", old)
	}
	describe(t, w, "cut c d")
	w.State.Revisions = append(w.State.Revisions, Revision{Name: "v3", Number: 3})
	w.State.Set.Update = 2
	w.pass(t, 40, 1)
	if old := w.old(); !slices.Equal(old, []string{"a", "b", "c", "d"}) {
		t.Fatalf("%v are old, want those that were cut", old)
	}
	describe(t, w, "heal a b c d")
	w.pass(t, 40, 1)
	if old := w.old(); len(old) > 0 {
		t.Fatalf("%v are old, want none", old)
	}
}

func six() []string {
	return slices.Repeat([]string{"must v1:ready"}, 6)
}

func describe(t *testing.T, w *world, lines ...string) {
	t.Helper()
	p := &player{w: *w}
	if _, err := p.describe(lines); err != nil {
		t.Fatal(err)
	}
	*w = p.w
}

// pass lets so many seconds go by, of which a decision is made in some.
func (w *world) pass(t *testing.T, seconds, every int) {
	t.Helper()
	for i := range seconds {
		if i%every == 0 {
			if err := w.Apply(Decide(w.State)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Keep(); err != nil {
			t.Fatal(err)
		}
		w.tick()
		w.State.Now = w.State.Now.Add(time.Second)
	}
}

// old are the nodes whose pod is old.
func (w *world) old() []string {
	var out []string
	for _, f := range newDumb(w.State).nodes {
		if len(f.current) == 0 {
			out = append(out, f.Name)
		}
	}
	return out
}
