// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"maps"
	"testing"
)

// TestEqualLabels: an entry equals just the sets that its own equals as a map.
func TestEqualLabels(t *testing.T) {
	sets := []map[string]string{
		nil, {}, {"a": ""}, {"b": ""}, {"a": "1"}, {"a": "2"}, {"a": "1", "b": "2"}, {"a": "2", "b": "1"}, {"a": "1", "c": "2"}, {"a": "1", "b": "2", "c": "3"},
	}
	table := labelTable{}
	for _, a := range sets {
		for _, b := range sets {
			if got, want := table.intern(a).equals(b), maps.Equal(a, b); got != want {
				t.Errorf("labels %v equal %v: %v, want %v", a, b, got, want)
			}
		}
	}
}
