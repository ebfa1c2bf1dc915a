// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

// Unwritten names the revision of a template for which no ControllerRevision has been written yet.
const Unwritten = "new"

// Resolved is the history of a set, with the revision of its template.
type Resolved struct {
	// Revisions, and Entries in the same order, are the set's revisions in order of their numbers.
	Revisions []Revision
	Entries   []revision.Entry
	revision.Resolution
}

// Observe is Resolve for a set whose history another controller writes. seen is whether the other controller has seen the template; if not, there is no current
// revision. One that has the template is current, whatever its number is: everyone who may create ControllerRevisions, or restores them, can make one with a higher
// number. If none has it, the other controller compares templates in another way, and the newest revision is that of the template, unless it is unknown which one is the newest: the other
// controller has deleted or not yet written it (newest is false), or two have the same number. Other revisions with the same data count as duplicates.
func Observe(w *dialect.Workload, owned []Revision, seen, newest bool) *Resolved {
	r := entriesOf(owned)
	last := len(owned) - 1
	r.Current = rollout.NoRevision
	if !seen || last < 0 {
		return r
	}
	if of := revision.Resolve(r.Entries, w.Template); of.Current >= 0 {
		r.Resolution = of
		return r
	}
	switch {
	case !newest || last > 0 && owned[last-1].Number == owned[last].Number:
	case r.Entries[last].Template == nil:
		r.Current = last
	default:
		r.Resolution = revision.Resolve(r.Entries, r.Entries[last].Template)
	}
	return r
}

// Resolve looks for the template of w among the revisions that it controls.
func Resolve(w *dialect.Workload, owned []Revision) *Resolved {
	r := entriesOf(owned)
	r.Resolution = revision.Resolve(r.Entries, w.Template)
	return r
}

func entriesOf(owned []Revision) *Resolved {
	r := &Resolved{Revisions: owned, Entries: make([]revision.Entry, len(owned))}
	for i, o := range owned {
		r.Entries[i] = revision.Entry{Name: o.Name, Hash: o.Hash, UID: o.UID, Number: o.Number, Template: o.Template()}
	}
	return r
}

// precedes reports whether the pods that carry the hash of both revisions are of the one at i: of the one with the name that a controller gives a revision with
// that hash, or else of the older one. Everyone who may create ControllerRevisions can make one with the hash of another, and any data and
// number, and the set adopts it; but not with the same name, or with an earlier time of creation.
func (r *Resolved) precedes(i, other int, name string) bool {
	if named := r.Entries[i].Name == name; named || r.Entries[other].Name == name {
		return named
	}
	return r.Revisions[i].Created < r.Revisions[other].Created
}

// Sources are the revisions, by index, that say what the pods with these hashes are of: one of each hash, as in History.
func (r *Resolved) Sources(setName string, hashes map[string]bool) map[int]bool {
	same := map[int]bool{r.Current: true}
	for _, i := range r.Duplicates {
		same[i] = true
	}
	of := map[string]int{}
	for i, e := range r.Entries {
		other, taken := of[e.Hash]
		switch {
		case !hashes[e.Hash]:
		case !taken, same[i] && !same[other], !same[i] && !same[other] && r.precedes(i, other, setName+"-"+e.Hash):
			of[e.Hash] = i
		}
	}
	sources := map[int]bool{}
	for _, i := range of {
		sources[i] = true
	}
	return sources
}

// History is what a Snapshot needs of it. Duplicates of the current revision count as the current one; a
// template without a revision counts as newer than all others, except for an external set: its template has
// the revision that the other controller assigns.
func (r *Resolved) History(w *dialect.Workload) History {
	h := History{Of: w, Update: r.Current, Index: make(map[string]int, len(r.Entries)), Generation: -1}
	for i, e := range r.Entries {
		h.Revisions = append(h.Revisions, rollout.Revision{Name: e.Hash, Number: e.Number, Created: r.Revisions[i].Created})
		if other, taken := h.Index[e.Hash]; !taken || r.precedes(i, other, w.Name+"-"+e.Hash) {
			h.Index[e.Hash] = i
		}
	}
	switch {
	case r.Current >= 0:
		h.Updated = r.Revisions[r.Current].Created
	case w.Set.ExternalController:
		h.Update = rollout.NoRevision
	default:
		h.Update = len(h.Revisions)
		h.Revisions = append(h.Revisions, rollout.Revision{Name: Unwritten, Number: r.Number})
	}
	for _, i := range r.Duplicates {
		h.Index[r.Entries[i].Hash] = h.Update
	}
	if r.Current >= 0 { // last: another revision may claim the same hash
		h.Index[r.Entries[r.Current].Hash] = h.Update
	}
	if w.TemplateGeneration != nil {
		h.Generation, h.Since = *w.TemplateGeneration, w.Created
	}
	return h
}

// Changes returns how pods get from one revision to another in place, by index; nil if the set changes none. inPlace is the function of the dialect; nil for none.
func (r *Resolved) Changes(w *dialect.Workload, inPlace func(from, to map[string]any) rollout.Change) func(from, to int) rollout.Change {
	if inPlace == nil || !w.Set.InPlace {
		return nil
	}
	return func(from, to int) rollout.Change {
		if from == to || max(from, to) >= len(r.Entries) {
			return rollout.Change{}
		}
		return inPlace(r.Entries[from].Template, r.Entries[to].Template)
	}
}
