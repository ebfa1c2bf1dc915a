// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// The labels of all nodes are read again only if one has changed: ten thousand nodes with thirty labels would take most of the time of a frame.
func TestFacetsAreFoundOnce(t *testing.T) {
	of := func() (all []map[string]string) {
		for i := range 2000 {
			labels := map[string]string{}
			for k := range 30 {
				labels[fmt.Sprint("label-", k)] = fmt.Sprint(i % (k + 1))
			}
			all = append(all, labels)
		}
		return all
	}
	var f facets
	labels := of()
	first := f.of(labels)
	if len(first) != 30 || first[1].Key != "label-10" || len(first[1].Values) != 11 {
		t.Fatalf("%d facets: %+v", len(first), first[1])
	}
	for what, same := range map[string][]map[string]string{"the same maps": labels, "maps with the same labels": of()} {
		if found := f.of(same); &found[0] != &first[0] {
			t.Errorf("%s: the facets are found again", what)
		}
	}
	other := slices.Clone(labels)
	other[7] = maps.Clone(labels[7])
	other[7]["another"] = "label"
	if found := f.of(other); len(found) != 31 {
		t.Errorf("after a change there are %d facets", len(found))
	}
}
