// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/policy"
)

// A wave that waits for nodes that are not ready names them, since when they are so, and when it continues without them.
func TestAWaveThatWaitsForNodesThatAreNotReady(t *testing.T) {
	at := func(d time.Duration) string { return time.Unix(0, int64(noon.Add(d))).UTC().Format(time.RFC3339) }
	const remedy = " Make the nodes ready, or set spec.unreachableAfter, so that waves continue without nodes that are not ready for that long."
	for name, c := range map[string]struct {
		spec, down string
		want       string
	}{
		"none":            {"", "", ""},
		"one":             {"unreachableAfter: 10m\n", "a", fmt.Sprintf("The wave canary waits for 1 node that is not ready: a (since %s, left out at %s).", at(0), at(10*time.Minute))},
		"without a limit": {"", "ab", fmt.Sprintf("The wave canary waits for 2 nodes that are not ready: a (since %s), b (since %s).", at(0), at(0)) + remedy},
		"many":            {"", "abcdef", fmt.Sprintf("The wave canary waits for 6 nodes that are not ready: a (since %[1]s), b (since %[1]s), c (since %[1]s), d (since %[1]s) and 2 more.", at(0)) + remedy},
		"of another wave": {"", "j", ""},
	} {
		w := newWorld(t, c.spec+"waves: [{name: canary, nodes: {count: 6}}]")
		for _, node := range strings.Split(c.down, "") {
			n := w.node(node)
			n.Ready, n.Since = false, noon
			n.Pods[0].Ready = false
		}
		w.pass(time.Second)
		w.pass(time.Second)
		got := ""
		for _, b := range w.last.Blocking {
			if b.Reason == policy.NodesNotReady {
				got += b.Message
			}
		}
		if got != c.want {
			t.Errorf("%s: it says %q, want %q", name, got, c.want)
		}
	}
}

// TestWhenANodeIsLeftOut: the message has the time when the wave goes on without the node, also if its condition is older than what the manager has measured, and clocks differ a little.
func TestWhenANodeIsLeftOut(t *testing.T) {
	w := newWorld(t, "unreachableAfter: 10m\nwaves: [{name: canary, nodes: {count: 3}}]")
	w.pass(time.Second)
	n := w.node("a")
	n.Ready, n.Since, n.Pods[0].Ready = false, noon.Add(-5*time.Minute), false
	for _, wall := range []time.Duration{time.Second, 60*time.Second - time.Millisecond, 60*time.Second + 2*time.Millisecond} {
		w.jump(wall, wall.Round(time.Second))
		if got, want := w.last.Blocking[0].Message, "left out at "+time.Unix(0, int64(noon.Add(10*time.Minute+2*time.Second))).UTC().Format(time.RFC3339); !strings.Contains(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	w.pass(8 * time.Minute)
	if got := w.wave("canary"); got.Nodes != 2 {
		t.Errorf("10 minutes later the wave has %d nodes", got.Nodes)
	}
}
