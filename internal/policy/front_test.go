// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// TestFrontLooksAtEachNodeOnce: a wave that grows by one node at a time asks for each node once, and then once more for the one that is not done.
func TestFrontLooksAtEachNodeOnce(t *testing.T) {
	const nodes, updated = 1000, 700
	f := &front{}
	for i := range nodes {
		f.nodes = append(f.nodes, i)
	}
	asked := 0
	f.look = func(i int) sight {
		if asked++; i < updated {
			return works
		}
		return lacking
	}
	if got, _ := f.grown(&Wave{Start: &rollout.Quantity{Value: 1}, Factor: 1}, 0, 0, 0); got != updated+1 {
		t.Errorf("%d nodes have begun, want %d", got, updated+1)
	}
	if asked != updated+1 {
		t.Errorf("it asks %d times whether a node is done, want %d", asked, updated+1)
	}
	for end, want := range map[int]bool{0: true, 1: true, updated: true, updated + 1: false, nodes: false} {
		if f.reaches(end) != want {
			t.Errorf("the first %d nodes are done: %t", end, !want)
		}
	}
}

// TestSpreadOverManyGroups: to take nodes in turn from many small groups and a large one costs about as much as from two large ones.
func TestSpreadOverManyGroups(t *testing.T) {
	const nodes = 60_000
	all := make([]int, nodes)
	unique, halves := make([]map[string]string, nodes), make([]map[string]string, nodes)
	for i := range all {
		all[i], halves[i] = i, map[string]string{"by": fmt.Sprint(i % 2)}
		if i < nodes/2 {
			unique[i] = map[string]string{"by": fmt.Sprint(i)} // the other half lacks the label, so it is one group
		}
	}
	took := func(labels []map[string]string) time.Duration {
		began := time.Now()
		if got := spread(all, []string{"by"}, labels, func(int) bool { return false }); len(got) != nodes {
			t.Fatal(len(got))
		}
		return time.Since(began)
	}
	few, many := took(halves), took(unique)
	if many > 20*few {
		t.Errorf("60000 nodes in 2 groups take %s, and in 30001 groups %s", few, many)
	}
}
