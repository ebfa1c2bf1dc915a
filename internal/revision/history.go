// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"cmp"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Entry is one revision of a set's history.
type Entry struct {
	// Name is the name of the ControllerRevision, Hash its label controller-revision-hash.
	Name, Hash string
	UID        types.UID
	// Number orders the entries; the newest entry has the highest number.
	Number int64
	// Template is the decoded data. It is nil if the data could not be decoded; nil equals no template.
	Template map[string]any
}

// Resolution is the result of finding a template in a history.
type Resolution struct {
	// Current is the index of the newest entry with the same meaning as the template (Same), or -1.
	Current int
	// Duplicates are the indices of the other equal entries, in their order.
	Duplicates []int
	// Number is the number that the current entry must have, or gets when it is created: its own number if that makes it
	// the newest, otherwise one more than the highest number of the entries that do not equal the template, unless that
	// overflows.
	Number int64
}

// Resolve finds template in a history, in any order. If two equal entries have the same number, the one whose name
// sorts first is the newest, so that the result is deterministic.
//
// Example: after an undo from the third template to the first, the history 1, 2, 3 has the template as number 1. That
// entry is current and must get number 4.
func Resolve(entries []Entry, template map[string]any) Resolution {
	known := knowledge{}
	r := Resolution{Current: -1}
	var highest int64
	for i := range entries {
		if !known.equalTemplates(entries[i].Template, template) && !known.equalWithDefaults(entries[i].Template, template) {
			highest = max(highest, entries[i].Number)
			continue
		}
		switch {
		case r.Current < 0:
			r.Current = i
		case newer(&entries[i], &entries[r.Current]):
			r.Duplicates = append(r.Duplicates, r.Current)
			r.Current = i
		default:
			r.Duplicates = append(r.Duplicates, i)
		}
	}
	slices.Sort(r.Duplicates)
	r.Number = highest
	if highest < math.MaxInt64 { // another controller may have used the last number
		r.Number++
	}
	if r.Current >= 0 {
		r.Number = max(r.Number, entries[r.Current].Number)
	}
	return r
}

// newer reports whether a comes after b in the history.
func newer(a, b *Entry) bool {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(b.Name, a.Name)) > 0
}

// Truncate returns the indices of the entries to delete so that at most limit are left in addition to current. The
// oldest are deleted first. An entry whose hash is live (a pod has it) is never deleted, so more than limit may be
// left. Duplicates of the current entry count like any other entry. current is -1 if there is none.
func Truncate(entries []Entry, current int, live map[string]bool, limit int) []int {
	old := make([]int, 0, len(entries))
	for i := range entries {
		if i != current {
			old = append(old, i)
		}
	}
	excess := len(old) - max(limit, 0)
	if excess <= 0 {
		return nil
	}
	slices.SortFunc(old, func(a, b int) int {
		return cmp.Or(cmp.Compare(entries[a].Number, entries[b].Number), cmp.Compare(entries[a].Name, entries[b].Name))
	})
	var remove []int
	for _, i := range old {
		if len(remove) == excess {
			break
		}
		if !live[entries[i].Hash] {
			remove = append(remove, i)
		}
	}
	return remove
}
