// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"testing"

	"everynode.dev/everynode/internal/clustercache"
)

// TestRoomInTheSlowLane: no set and no namespace takes all places, and who has none finds one.
func TestRoomInTheSlowLane(t *testing.T) {
	l := &SlowLane{}
	fill := func(namespace, name string) (places int) {
		for l.enter(clustercache.Key{Namespace: namespace, Name: name}) {
			places++
		}
		return places
	}
	if n := fill("a", "one"); n != slowOfSpace/2 {
		t.Errorf("one set takes %d places, want half of those of a namespace", n)
	}
	for i := range 300 {
		fill("a", fmt.Sprint(i))
	}
	if l.all != slowOfSpace {
		t.Errorf("the sets of one namespace take %d places, want %d", l.all, slowOfSpace)
	}
	for i := range 300 {
		if n := fill(fmt.Sprint("tenant", i), "set"); i < 4 && n == 0 {
			t.Errorf("namespace %d finds no place", i)
		}
	}
	if l.all != slowInAll {
		t.Errorf("%d places are taken, want %d", l.all, slowInAll)
	}
	l.leave(clustercache.Key{Namespace: "a", Name: "one"})
	if l.enter(clustercache.Key{Namespace: "a", Name: "one"}) {
		t.Error("a set that has places takes the one that has become free")
	}
	if !l.enter(clustercache.Key{Namespace: "late", Name: "set"}) {
		t.Error("a set that has no place does not get the one that has become free")
	}
}
