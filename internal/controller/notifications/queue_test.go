// SPDX-License-Identifier: Apache-2.0

package notifications

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// put adds n messages of a namespace, and returns how often one was dropped.
func put(q *queue, namespace string, n int) (dropped int) {
	for i := range n {
		if full, _ := q.add(&message{id: fmt.Sprintf("%s-%d", namespace, i), namespace: namespace}); full {
			dropped++
		}
	}
	return dropped
}

// drain takes up to n messages.
func drain(q *queue, n int) (ids []string) {
	for range n {
		m, _ := q.take(time.Time{}, nil)
		if m == nil {
			break
		}
		ids = append(ids, m.id)
	}
	return ids
}

// Namespaces take turns, so an event waits for at most one of each other namespace. Those of one namespace keep their order.
func TestNamespacesTakeTurns(t *testing.T) {
	q := newQueue()
	put(q, "many", 5)
	put(q, "one", 1)
	put(q, "two", 2)
	if got, want := drain(q, 9), []string{"many-0", "one-0", "two-0", "many-1", "two-1", "many-2", "many-3", "many-4"}; !slices.Equal(got, want) {
		t.Errorf("the order is %q, want %q", got, want)
	}
	put(q, "many", 2)
	drain(q, 1)
	put(q, "one", 1)
	if got, want := drain(q, 9), []string{"many-1", "one-0"}; !slices.Equal(got, want) {
		t.Errorf("then the order is %q, want %q", got, want)
	}
}

// A full queue drops the oldest event of the namespace that has most, so that a namespace with many rollouts costs the others none.
func TestANamespaceWithManyEventsCostsOthersNone(t *testing.T) {
	q := newQueue()
	early := put(q, "early", 3)
	flood := put(q, "flood", 4*maxQueue)
	late := put(q, "late", 3)
	if early != 0 || flood != 3*maxQueue+3 || late != 3 {
		t.Errorf("dropped %d, %d and %d", early, flood, late)
	}
	kept := map[string][]string{}
	ids := drain(q, 2*maxQueue)
	for _, id := range ids {
		namespace, _, _ := strings.Cut(id, "-")
		kept[namespace] = append(kept[namespace], id)
	}
	if len(ids) != maxQueue || len(kept["early"]) != 3 || len(kept["late"]) != 3 || len(kept["flood"]) != maxQueue-6 {
		t.Fatalf("of %d messages there are %d, %d and %d", len(ids), len(kept["early"]), len(kept["late"]), len(kept["flood"]))
	}
	if first, last := kept["flood"][0], kept["flood"][maxQueue-7]; first != fmt.Sprintf("flood-%d", 3*maxQueue+6) || last != fmt.Sprintf("flood-%d", 4*maxQueue-1) {
		t.Errorf("the flood has %s to %s", first, last)
	}
	if ids[0] != "early-0" || ids[1] != kept["flood"][0] || ids[2] != "late-0" {
		t.Errorf("the first are %q", ids[:3])
	}
}

// A namespace whose next attempt is not due yet has no turn, and keeps its messages. If all namespaces wait, so does the queue, for the first attempt that is due.
func TestANamespaceWaitsForItsNextAttempt(t *testing.T) {
	q, now := newQueue(), time.Unix(1_800_000_000, 0)
	put(q, "late", 2)
	put(q, "soon", 1)
	put(q, "ready", 2)
	all := failures{"late": {due: now.Add(time.Minute)}, "soon": {due: now.Add(time.Second)}, "ready": {due: now}}
	for _, want := range []struct {
		at    time.Duration
		id    string
		after time.Duration
	}{{0, "ready-0", 0}, {0, "ready-1", 0}, {0, "", time.Second}, {time.Second, "soon-0", 0}, {2 * time.Second, "", 58 * time.Second}, {time.Minute, "late-0", 0}, {time.Minute, "late-1", 0}, {time.Minute, "", 0}} {
		id := ""
		m, after := q.take(now.Add(want.at), all)
		if m != nil {
			id = m.id
		}
		if id != want.id || after != want.after {
			t.Errorf("after %s: %q in %s, want %q in %s", want.at, id, after, want.id, want.after)
		}
	}
}

// However many namespaces there are, the queue has a bound, and what is empty is forgotten.
func TestQueueOfManyNamespaces(t *testing.T) {
	q := newQueue()
	for i := range 2 * maxQueue {
		put(q, fmt.Sprintf("n%d", i), 1)
	}
	if got := len(drain(q, 3*maxQueue)); got != maxQueue {
		t.Errorf("%d messages, want %d", got, maxQueue)
	}
	if q.size() != 0 || len(q.turns) != 0 || len(q.of) != 0 {
		t.Errorf("left are %d messages, %d turns, %d namespaces", q.size(), len(q.turns), len(q.of))
	}
}
