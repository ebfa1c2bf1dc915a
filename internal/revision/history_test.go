// SPDX-License-Identifier: Apache-2.0

package revision_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"everynode.dev/everynode/internal/revision"
)

// entry makes the entry number of a history whose template has the given image.
func entry(name string, number int64, image string) revision.Entry {
	return revision.Entry{Name: name, Hash: name, Number: number, Template: withImage(image)}
}

func withImage(image string) map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": image}}}}
}

func TestResolve(t *testing.T) {
	cases := []struct {
		name    string
		entries []revision.Entry
		want    revision.Resolution
	}{
		{"empty history", nil, revision.Resolution{Current: -1, Number: 1}},
		{"new template", []revision.Entry{entry("r1", 1, "v1"), entry("r2", 2, "v2")}, revision.Resolution{Current: -1, Number: 3}},
		{"numbers with gaps", []revision.Entry{entry("r1", 7, "v1")}, revision.Resolution{Current: -1, Number: 8}},
		{"current is the newest", []revision.Entry{entry("r1", 1, "v1"), entry("r2", 2, "now")}, revision.Resolution{Current: 1, Number: 2}},
		{"current keeps a higher number", []revision.Entry{entry("r1", 1, "v1"), entry("r2", 9, "now")}, revision.Resolution{Current: 1, Number: 9}},
		{"undo", []revision.Entry{entry("r1", 1, "now"), entry("r2", 2, "v2"), entry("r3", 3, "v3")}, revision.Resolution{Current: 0, Number: 4}},
		{"same number as another", []revision.Entry{entry("r1", 2, "v1"), entry("r2", 2, "now")}, revision.Resolution{Current: 1, Number: 3}},
		{
			"duplicates", []revision.Entry{entry("r1", 1, "now"), entry("r2", 2, "v2"), entry("r3", 3, "now"), entry("r4", 2, "now")},
			revision.Resolution{Current: 2, Duplicates: []int{0, 3}, Number: 3},
		},
		{
			"duplicates older than another", []revision.Entry{entry("r1", 1, "now"), entry("r2", 2, "now"), entry("r3", 3, "v3")},
			revision.Resolution{Current: 1, Duplicates: []int{0}, Number: 4},
		},
		{
			"duplicates with one number: by name", []revision.Entry{entry("rb", 1, "now"), entry("ra", 1, "now"), entry("rc", 1, "now")},
			revision.Resolution{Current: 1, Duplicates: []int{0, 2}, Number: 1},
		},
		{"an entry that could not be decoded", []revision.Entry{{Name: "r1", Number: 5}}, revision.Resolution{Current: -1, Number: 6}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := revision.Resolve(c.entries, withImage("now")); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// Two managers, or two passes, see the entries in different orders and must come to the same.
func TestResolveDoesNotDependOnOrder(t *testing.T) {
	entries := []revision.Entry{entry("a", 1, "now"), entry("b", 1, "now"), entry("c", 3, "v3"), entry("d", 2, "now"), entry("e", 2, "now")}
	want := revision.Resolve(entries, withImage("now"))
	for range len(entries) {
		entries = append(entries[1:], entries[0])
		for _, order := range [][]revision.Entry{entries, reversed(entries)} {
			got := revision.Resolve(order, withImage("now"))
			if order[got.Current].Name != "d" || got.Number != want.Number || len(got.Duplicates) != len(want.Duplicates) {
				t.Errorf("got %s and %+v, want d and %+v", order[got.Current].Name, got, want)
			}
		}
	}
}

func reversed(entries []revision.Entry) []revision.Entry {
	entries = slices.Clone(entries)
	slices.Reverse(entries)
	return entries
}

func TestTruncate(t *testing.T) {
	// In an order that is not that of the numbers: r4, r1, r3, r5 (current), r2.
	entries := []revision.Entry{entry("r4", 4, "v4"), entry("r1", 1, "v1"), entry("r3", 3, "v3"), entry("r5", 5, "v5"), entry("r2", 2, "v2")}
	cases := []struct {
		name    string
		current int
		live    []string
		limit   int
		want    []string
	}{
		{"enough room", 3, nil, 4, nil},
		{"more than enough room", 3, nil, 100, nil},
		{"oldest first", 3, nil, 2, []string{"r1", "r2"}},
		{"limit 0 keeps the current one", 3, nil, 0, []string{"r1", "r2", "r3", "r4"}},
		{"a negative limit is 0", 3, nil, -1, []string{"r1", "r2", "r3", "r4"}},
		{"live ones stay, others go instead", 3, []string{"r1", "r3"}, 2, []string{"r2", "r4"}},
		{"too many are live", 3, []string{"r1", "r2", "r3"}, 0, []string{"r4"}},
		{"no current one", -1, nil, 4, []string{"r1"}},
		{"an undone one is current", 1, nil, 3, []string{"r2"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			live := map[string]bool{}
			for _, hash := range c.live {
				live[hash] = true
			}
			var got []string
			for _, i := range revision.Truncate(entries, c.current, live, c.limit) {
				got = append(got, entries[i].Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func BenchmarkResolve(b *testing.B) {
	template := readTemplate(b, "agent")
	var entries []revision.Entry
	for i := range 11 {
		old := readTemplate(b, "agent")
		old["metadata"] = map[string]any{"labels": map[string]any{"version": fmt.Sprint(i)}}
		entries = append(entries, revision.Entry{Number: int64(i), Template: old})
	}
	entries[10].Template = template
	b.ReportAllocs()
	for b.Loop() {
		revision.Resolve(entries, template)
	}
}
