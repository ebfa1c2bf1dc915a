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
	// Number orders the entries; the newest has the highest.
	Number int64
	// Template is the decoded data; nil, when they could not be decoded, equals no template.
	Template map[string]any
}

// Resolution says which entry of a history a template is.
type Resolution struct {
	// Current is the index of the newest entry that means the same as the template (Same), or -1.
	Current int
	// Duplicates are the indices of the other entries that equal it, in their order.
	Duplicates []int
	// Number is the number that the current entry must have, or get when it is created: its own, or, where that would
	// not make it the newest, one more than the highest of the entries that do not equal the template, as far as there is such a number.
	Number int64
}

// Resolve finds template in a history, in any order. Where two equal entries have the same number, the one whose name is
// first in the alphabet is the newest, so that it is the same one every time.
//
// Example: after an undo from the third template to the first, the history 1, 2, 3 holds the template as number 1; it is
// current and has to become number 4.
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
	if highest < math.MaxInt64 { // somebody else may have used the last number up
		r.Number++
	}
	if r.Current >= 0 {
		r.Number = max(r.Number, entries[r.Current].Number)
	}
	return r
}

// newer is whether a comes after b in the history.
func newer(a, b *Entry) bool {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(b.Name, a.Name)) > 0
}

// Truncate returns the indices of the entries to delete so that, besides current, at most limit are left: the oldest
// first, and never one whose hash is live, that is, carried by a pod. So more than limit may be left. Duplicates of the
// current entry count like any other; current is -1 when there is none.
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
