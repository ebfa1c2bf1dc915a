// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/dialect"
)

// PutPod takes a version of a pod from the watch.
func (x *Index) PutPod(rec Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.watchReached(rec.RV)
	x.putPod(&rec)
}

// ObservePod takes a version of a pod from the answer of a read or write of our own. An unknown pod whose version the watch
// has already passed is not added: it has come and gone.
func (x *Index) ObservePod(rec Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.pods[rec.UID] == nil && x.podsRV != "" && !newer(rec.RV, x.podsRV) {
		return
	}
	x.putPod(&rec)
}

func (x *Index) putPod(rec *Pod) {
	if _, gone := x.confirmedDeleted[rec.UID]; gone {
		return
	}
	p := x.pods[rec.UID]
	isNew := p == nil
	switch {
	case p == nil && x.hasEnded(rec):
		return
	case p == nil:
		p = &podRecord{uid: rec.UID}
		x.pods[rec.UID] = p
	case !newer(rec.RV, p.rv):
		return
	case !p.differs(rec):
		p.rv = rec.RV // no pass is needed: most versions of a pod change nothing in a Snapshot
		return
	default:
		s := x.ownerOf(p)
		if x.updateInPlace(s, p, rec) {
			return
		}
		x.withdraw(s, p, rec)
	}
	p.read(rec)
	x.share(p, rec)
	if rec.Node != "" {
		p.node = x.nodes.byName[rec.Node]
		if p.node == nil {
			p.node = x.addMissingNode(rec.Node)
		}
		p.node.pods++
	}
	if s := x.file(p); isNew && s != nil && p.node != nil {
		s.writes.Outlive(p.node.id, "")
	}
}

// updateInPlace takes a newer version of a pod of s whose record stays where it is, if it does: most versions that matter change nothing but how the pod is.
func (x *Index) updateInPlace(s *set, p *podRecord, rec *Pod) bool {
	if s == nil || p.node == nil || p.node.Name != rec.Node || p.origin.originID != rec.origin() || p.deleting != rec.Deleting ||
		announces(p.facts) != announces(rec.Facts) || !p.labels.equals(rec.Labels) {
		return false
	}
	x.agents.remove(p)
	p.read(rec)
	x.agents.add(p)
	x.notify(s.key)
	return true
}

// withdraw removes a record of s, if of any set, from its place before a newer version is filed.
func (x *Index) withdraw(s *set, p *podRecord, rec *Pod) {
	if s != nil {
		if p.node != nil && (rec.origin() != p.origin.originID || rec.Node != p.nodeName()) {
			s.remember(p) // it lives on with its name, but not here
		}
		if rec.origin() != p.origin.originID {
			x.notify(s.key)
		}
	}
	x.detach(s, p)
}

// share gives a record what it has in common with others.
func (x *Index) share(p *podRecord, rec *Pod) {
	if id := rec.origin(); p.origin == nil || p.origin.originID != id {
		old := p.origin
		p.origin = x.origins.take(id)
		if old != nil {
			x.origins.release(old)
		}
	}
	if p.labels == nil || !p.labels.equals(rec.Labels) {
		old := p.labels
		p.labels = x.labels.internLike(p.origin.labels, rec.Labels)
		p.origin.labels = p.labels
		if old != nil {
			x.labels.release(old)
		}
	}
}

// file puts a record where it belongs: in a state for its set, which it returns, among the pods without a set, or among the orphans.
func (x *Index) file(p *podRecord) *set {
	x.agents.add(p)
	if p.origin.owner != "" {
		if s := x.ownerOf(p); s != nil {
			x.attach(s, p)
			x.notify(s.key)
			return s
		}
		x.keepWithoutSet(p)
		return nil
	}
	if x.orphans[p.origin.namespace] == nil {
		x.orphans[p.origin.namespace] = podSet{}
	}
	x.orphans[p.origin.namespace][p.uid] = p
	for _, s := range x.spaces[p.origin.namespace] {
		if adoptable(s, p) {
			s.adoptable[p.uid] = p
			x.notify(s.key)
		}
	}
	return nil
}

// adoptable reports whether s may take the orphan p: same namespace, selected, and not on its way out.
func adoptable(s *set, p *podRecord) bool {
	w := s.workload
	return p.origin.namespace == w.Namespace && !p.deleting && !w.SelectsAll &&
		w.Selector != nil && w.Selector.Matches(labels.Set(p.labels.set))
}

func (x *Index) findAdoptable(s *set) {
	for uid, p := range x.orphans[s.workload.Namespace] {
		if adoptable(s, p) {
			s.adoptable[uid] = p
		}
	}
}

func (x *Index) attach(s *set, p *podRecord) {
	if announces(p.facts) {
		s.announced++
	}
	if p.node == nil {
		s.unplaced[p.uid] = p
	} else {
		c := s.ensureState(p.node)
		p.next, c.pods = c.pods, p
		s.podCount++
	}
	if p.writes != nil {
		s.track(p)
	}
	if w := s.workload; w.Selector != nil && !p.deleting && !w.Selector.Matches(labels.Set(p.labels.set)) {
		s.foreign[p.uid] = p
	}
}

// detach takes a record out of wherever file has put it; s is the set that it belongs to, if any.
func (x *Index) detach(s *set, p *podRecord) {
	x.agents.remove(p)
	if p.origin.owner == "" {
		delete(x.orphans[p.origin.namespace], p.uid)
		if len(x.orphans[p.origin.namespace]) == 0 {
			delete(x.orphans, p.origin.namespace)
		}
		for _, s := range x.spaces[p.origin.namespace] {
			delete(s.adoptable, p.uid)
		}
	} else if s != nil {
		s.remove(p)
	} else if pods := x.withoutSet[p.origin.owner]; pods != nil {
		if delete(pods, p.uid); len(pods) == 0 {
			delete(x.withoutSet, p.origin.owner)
		}
	}
	if p.node != nil {
		p.node.pods--
		x.forgetMissingNode(p.node)
		p.node = nil
	}
}

// announces reports whether a pod says if there is a newer revision.
func announces(f *dialect.PodFacts) bool { return f != nil && f.Announced.Said }

func (s *set) remove(p *podRecord) {
	if announces(p.facts) {
		s.announced--
	}
	delete(s.unplaced, p.uid)
	delete(s.foreign, p.uid)
	delete(s.open, p.uid)
	if p.node == nil {
		return
	}
	for at := &s.ensureState(p.node).pods; *at != nil; at = &(*at).next {
		if *at == p {
			*at, p.next = p.next, nil
			s.podCount--
			return
		}
	}
}

// Version is the newest resourceVersion of the pod that is known, from the watch or from the answer to a write; empty for a pod that is not kept.
func (x *Index) Version(uid types.UID) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.pods[uid]; p != nil {
		return p.rv
	}
	return ""
}

// DeletePod takes a deletion from the watch; rv is the version of the deletion.
func (x *Index) DeletePod(uid types.UID, rv string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if rv != "" {
		x.watchReached(rv)
	}
	delete(x.confirmedDeleted, uid)
	x.dropPod(uid)
}

// ConfirmDeleted removes a pod that, according to a read from the API server itself, is gone. Later events of
// the watch about it do not restore it: otherwise its successor would be one pod too many.
func (x *Index) ConfirmDeleted(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.pods[uid]; p != nil {
		x.confirmedDeleted[uid] = p.rv
		x.dropPod(uid)
	}
}

// ForgetPod removes a pod that, according to the answer to a write, no longer belongs to a daemon set. It may belong to one again later.
func (x *Index) ForgetPod(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropPod(uid)
}

func (x *Index) dropPod(uid types.UID) {
	p := x.pods[uid]
	if p == nil {
		return
	}
	n, s := p.node, x.ownerOf(p)
	x.detach(s, p)
	if s != nil {
		if n != nil && x.nodes.byName[n.Name] == n {
			s.rememberOn(n, p)
			s.writes.Outlive(n.id, uid)
		}
		x.notify(s.key)
	}
	if p.blocked {
		for _, s := range x.spaces[p.origin.namespace] {
			s.writes.Unblock(uid)
		}
	}
	x.labels.release(p.labels)
	x.origins.release(p.origin)
	delete(x.pods, uid)
}

// ReplacePods makes list, which the API server gave at resourceVersion rv, the pods that exist. A record that is newer than
// the list stays: it came from the answer of a write after the list. Where a pod has gone back to an older version, it
// returns that pod and does not take the list; called once more, it takes it.
func (x *Index) ReplacePods(list []*Pod, rv string) *Reverted {
	x.mu.Lock()
	defer x.mu.Unlock()
	if back := x.revertedPod(list, rv); back != nil {
		return back
	}
	listed := make(map[types.UID]bool, len(list))
	for i := range list {
		listed[list[i].UID] = true
		x.putPod(list[i])
	}
	for uid, p := range x.pods {
		if !listed[uid] && !newer(p.rv, rv) {
			x.dropPod(uid)
		}
	}
	for uid, known := range x.confirmedDeleted {
		if !listed[uid] && !newer(known, rv) {
			delete(x.confirmedDeleted, uid) // the watch continues from the list, and will not report it again
		}
	}
	x.watchReached(rv)
	return nil
}

// PodsSeen records that the watch of pods has reached rv without a change (a bookmark).
func (x *Index) PodsSeen(rv string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.watchReached(rv)
}

// Versions returns the newest resourceVersions that the watches of pods and of nodes have shown.
func (x *Index) Versions() (pods, nodes string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.podsRV, x.nodes.rv
}

// Ready reports whether the pod is there and ready.
func (x *Index) Ready(uid types.UID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.pods[uid]
	return p != nil && p.ready
}

// least are the n pods with the first names of those that pass a test, sorted, and whether there are more.
func (ps podSet) least(n int, test func(*podRecord) bool) (list []Pod, more bool) {
	var few []*podRecord
	cut := func() {
		slices.SortFunc(few, func(a, b *podRecord) int { return strings.Compare(a.name, b.name) })
		if len(few) > n {
			few, more = few[:n], true
		}
	}
	for _, p := range ps {
		if more && p.name > few[n-1].name || !test(p) {
			continue
		}
		if few = append(few, p); len(few) == 2*n {
			cut()
		}
	}
	cut()
	for _, p := range few {
		list = append(list, p.pod())
	}
	return list, more
}

// byName are the pods, sorted.
func (ps podSet) byName() []*podRecord {
	return slices.SortedFunc(maps.Values(ps), func(a, b *podRecord) int { return strings.Compare(a.name, b.name) })
}
