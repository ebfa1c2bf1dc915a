// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// revisionTable holds every ControllerRevision whose controller is a daemon set, and those without a controller.
type revisionTable struct {
	byUID   map[types.UID]*Revision
	byOwner map[revisionOwner]map[types.UID]*Revision
	rv      string
}

// revisionOwner is the controller of a revision: the namespace bounds what an orphan, whose UID is empty, concerns.
type revisionOwner struct {
	namespace string
	uid       types.UID
}

func (r *Revision) owner() revisionOwner { return revisionOwner{r.Namespace, r.Owner} }

func newRevisionTable() revisionTable {
	return revisionTable{byUID: map[types.UID]*Revision{}, byOwner: map[revisionOwner]map[types.UID]*Revision{}}
}

// PutRevision takes a version of a ControllerRevision from the watch.
func (x *Index) PutRevision(rec Revision) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.revisions.rv = rec.RV
	x.putRevision(rec)
}

// ObserveRevision takes a version from the answer of a read or write of our own; see ObservePod.
func (x *Index) ObserveRevision(rec Revision) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := &x.revisions
	if t.byUID[rec.UID] == nil && t.rv != "" && !newer(rec.RV, t.rv) {
		return
	}
	x.putRevision(rec)
}

func (x *Index) putRevision(rec Revision) {
	t := &x.revisions
	if old := t.byUID[rec.UID]; old != nil {
		if !newer(rec.RV, old.RV) {
			return
		}
		t.unfile(old)
	}
	r := &rec
	t.byUID[r.UID] = r
	if t.byOwner[r.owner()] == nil {
		t.byOwner[r.owner()] = map[types.UID]*Revision{}
	}
	t.byOwner[r.owner()][r.UID] = r
	x.notifyRevision(r)
}

func (t *revisionTable) unfile(r *Revision) {
	delete(t.byUID, r.UID)
	if delete(t.byOwner[r.owner()], r.UID); len(t.byOwner[r.owner()]) == 0 {
		delete(t.byOwner, r.owner())
	}
}

func (x *Index) notifyRevision(r *Revision) {
	if s := x.setOf(r.origin()); s != nil {
		x.notify(s.key)
		return
	}
	if r.Owner != "" {
		return
	}
	for key, s := range x.spaces[r.Namespace] {
		if adoptableRevision(s, r) {
			x.notify(key)
		}
	}
}

func (r *Revision) origin() originID {
	return originID{namespace: r.Namespace, advanced: r.Advanced, owner: r.Owner}
}

func adoptableRevision(s *set, r *Revision) bool {
	w := s.workload
	return r.Namespace == w.Namespace && !r.Deleting && !w.SelectsAll && w.Selector != nil &&
		w.Selector.Matches(labels.Set(r.Labels))
}

// DropRevision removes a ControllerRevision that is gone, according to the watch or the answer to a write.
func (x *Index) DropRevision(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r := x.revisions.byUID[uid]; r != nil {
		x.revisions.unfile(r)
		x.notifyRevision(r)
	}
}

// ExpectRevisionDeleted records that the API server has deleted a ControllerRevision, or will when its finalizers are removed: the watch shows which.
func (x *Index) ExpectRevisionDeleted(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r := x.revisions.byUID[uid]; r != nil {
		r.Deleting = true
	}
}

// ReplaceRevisions makes list, given at resourceVersion rv, the revisions that exist; newer records stay. Of a revision that has
// gone back see ReplacePods.
func (x *Index) ReplaceRevisions(list []Revision, rv string) *Reverted {
	x.mu.Lock()
	defer x.mu.Unlock()
	if back := x.revertedRevision(list, rv); back != nil {
		return back
	}
	listed := make(map[types.UID]bool, len(list))
	for i := range list {
		listed[list[i].UID] = true
		x.putRevision(list[i])
	}
	for uid, r := range x.revisions.byUID {
		if !listed[uid] && !newer(r.RV, rv) {
			x.revisions.unfile(r)
			x.notifyRevision(r)
		}
	}
	x.revisions.rv = rv
	return nil
}

// RevisionsSeen records that the watch of revisions has reached rv without a change (a bookmark).
func (x *Index) RevisionsSeen(rv string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.revisions.rv = rv
}

// History returns the revisions that the set controls, oldest first, and the orphans that it may adopt. One that is being deleted counts for as
// long as it is there: a finalizer may keep it, and the pods of its template are what they were.
func (x *Index) History(key Key) (owned, orphans []Revision) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.sets[key]
	if s == nil {
		return nil, nil
	}
	for _, r := range x.revisions.byOwner[revisionOwner{s.workload.Namespace, s.workload.UID}] {
		if s.is(r.origin()) {
			owned = append(owned, *r)
		}
	}
	for _, r := range x.revisions.byOwner[revisionOwner{namespace: s.workload.Namespace}] {
		if adoptableRevision(s, r) {
			orphans = append(orphans, *r)
		}
	}
	slices.SortFunc(owned, byNumber)
	slices.SortFunc(orphans, byNumber)
	return owned, orphans
}

// byNumber orders revisions by their numbers. One that was deleted and made again may be known twice: the version that came later is the last then, whatever the order of a map.
func byNumber(a, b Revision) int {
	versions, _ := resourceversion.CompareResourceVersion(a.RV, b.RV) // 0 if they cannot be compared
	return cmp.Or(cmp.Compare(a.Number, b.Number), strings.Compare(a.Name, b.Name), versions, cmp.Compare(a.UID, b.UID))
}
