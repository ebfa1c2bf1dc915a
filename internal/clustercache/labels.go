// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"maps"
	"slices"
	"strings"
)

// labelTable keeps one copy of equal label sets: the pods of one revision of a set all carry the same labels.
type labelTable map[string]*labelEntry

type labelEntry struct {
	id   string
	set  map[string]string
	list []label // the set as a list, which is read faster than a map
	hash string  // the revision that they name
	uses int
}

type label struct{ key, value string }

// equals reports whether the labels are those of a set. It decides what most versions of pods cost: they change nothing.
func (e *labelEntry) equals(set map[string]string) bool {
	if len(e.list) != len(set) {
		return false
	}
	for _, l := range e.list {
		if value, has := set[l.key]; !has || value != l.value {
			return false
		}
	}
	return true
}

func (t labelTable) intern(set map[string]string) *labelEntry {
	id := canonical(set)
	e := t[id]
	if e == nil {
		e = &labelEntry{id: id, set: set, list: make([]label, 0, len(set)), hash: set[hashLabel]}
		for key, value := range set {
			e.list = append(e.list, label{key, value})
		}
		t[id] = e
	}
	e.uses++
	return e
}

// internLike is intern for labels that are probably those of an entry, which may be nil or not in the table any more: to compare them costs less than to look them up.
func (t labelTable) internLike(e *labelEntry, set map[string]string) *labelEntry {
	if e == nil || e.uses == 0 || !e.equals(set) {
		return t.intern(set)
	}
	e.uses++
	return e
}

func (t labelTable) release(e *labelEntry) {
	if e.uses--; e.uses == 0 {
		delete(t, e.id)
	}
}

// canonical is a string that is equal for equal maps only; neither keys nor values of labels may hold a line break.
func canonical(set map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(set)) {
		b.WriteString(k)
		b.WriteByte('=')
		b.WriteString(set[k])
		b.WriteByte('\n')
	}
	return b.String()
}
