// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/rollout"
)

// PutPod takes a version of a pod from the watch.
func (x *Index) PutPod(rec Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.podsRV = rec.RV
	x.putPod(rec)
}

// FoldPod takes a version of a pod from the answer of a read or write of our own. An unknown pod whose version the watch
// has already passed is not added: it has come and gone.
func (x *Index) FoldPod(rec Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.pods[rec.UID] == nil && x.podsRV != "" && !newer(rec.RV, x.podsRV) {
		return
	}
	x.putPod(rec)
}

func (x *Index) putPod(rec Pod) {
	p := x.pods[rec.UID]
	if p != nil && !newer(rec.RV, p.RV) {
		return
	}
	if p == nil {
		p = &podRecord{nodeID: -1}
		x.pods[rec.UID] = p
	} else {
		if s := x.byUID[p.Owner]; s != nil && p.nodeID >= 0 && (rec.Owner != p.Owner || rec.Node != p.Node) {
			s.remember(p) // it lives on with its name, but not here
		}
		x.detach(p)
		x.labels.release(p.labels)
	}
	p.Pod = rec
	p.labels = x.labels.intern(rec.Labels)
	p.Labels = p.labels.set
	p.Hash = p.labels.set[hashLabel] // shares the interned string
	p.nodeID = -1
	if rec.Node != "" {
		n := x.nodes.byName[rec.Node]
		if n == nil {
			n = x.addNode(rec.Node)
		}
		n.pods++
		p.nodeID = n.id
	}
	x.file(p)
}

// file puts a record where it belongs: in a cell of its set, among the strays, or among the orphans.
func (x *Index) file(p *podRecord) {
	if p.Owner != "" {
		if s := x.byUID[p.Owner]; s != nil {
			x.attach(s, p)
			x.notify(s.key)
			return
		}
		x.stray(p)
		return
	}
	if x.orphans[p.Namespace] == nil {
		x.orphans[p.Namespace] = podSet{}
	}
	x.orphans[p.Namespace][p.UID] = p
	for _, s := range x.sets {
		if adoptable(s, p) {
			s.adoptable[p.UID] = p
			x.notify(s.key)
		}
	}
}

// adoptable is whether s may take the orphan p: same namespace, selected, and not on its way out.
func adoptable(s *set, p *podRecord) bool {
	w := s.workload
	return p.Namespace == w.Namespace && !p.Deleting && !p.Phase.Terminal() && !w.SelectsAll &&
		w.Selector != nil && w.Selector.Matches(labels.Set(p.Labels))
}

func (x *Index) findAdoptable(s *set) {
	for uid, p := range x.orphans[s.workload.Namespace] {
		if adoptable(s, p) {
			s.adoptable[uid] = p
		}
	}
}

func (x *Index) attach(s *set, p *podRecord) {
	if p.announces() {
		s.announced++
	}
	if p.nodeID < 0 {
		s.unplaced[p.UID] = p
	} else {
		c := &s.cells[p.nodeID]
		p.next, c.pods = c.pods, p
		s.podCount++
		delete(s.refused, p.nodeID)
	}
	if p.unsettled && !p.Deleting {
		s.unsettled[p.UID] = p
	}
	if p.doubt != 0 {
		s.doubts[p.UID] = p
	}
	if w := s.workload; w.Selector != nil && !p.Deleting && !w.Selector.Matches(labels.Set(p.Labels)) {
		s.foreign[p.UID] = p
	}
}

// detach takes a record out of wherever file has put it, and notifies its set.
func (x *Index) detach(p *podRecord) {
	if p.Owner == "" {
		delete(x.orphans[p.Namespace], p.UID)
		if len(x.orphans[p.Namespace]) == 0 {
			delete(x.orphans, p.Namespace)
		}
		for _, s := range x.sets {
			delete(s.adoptable, p.UID)
		}
	} else if s := x.byUID[p.Owner]; s != nil {
		s.remove(p)
		x.notify(s.key)
	} else if strays := x.strays[p.Owner]; strays != nil {
		if delete(strays, p.UID); len(strays) == 0 {
			delete(x.strays, p.Owner)
		}
	}
	if p.nodeID >= 0 {
		n := x.nodes.byID[p.nodeID]
		n.pods--
		x.forgetGhost(n)
	}
}

// announces is whether the pod says if there is a newer revision.
func (p *podRecord) announces() bool { return p.Facts != nil && p.Facts.Announced.Said }

func (s *set) remove(p *podRecord) {
	if p.announces() {
		s.announced--
	}
	delete(s.unplaced, p.UID)
	delete(s.foreign, p.UID)
	delete(s.unsettled, p.UID)
	delete(s.doubts, p.UID)
	if p.nodeID < 0 {
		return
	}
	for at := &s.cells[p.nodeID].pods; *at != nil; at = &(*at).next {
		if *at == p {
			*at, p.next = p.next, nil
			s.podCount--
			return
		}
	}
}

// DeletePod takes a deletion from the watch; rv is the version of the deletion.
func (x *Index) DeletePod(uid types.UID, rv string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if rv != "" {
		x.podsRV = rv
	}
	x.dropPod(uid)
}

// ForgetPod removes a pod that a read or write of ours found to be gone.
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
	x.detach(p)
	if s := x.byUID[p.Owner]; s != nil && p.nodeID >= 0 && x.nodes.byID[p.nodeID] != nil {
		s.remember(p)
	}
	x.labels.release(p.labels)
	delete(x.pods, uid)
}

// ReplacePods makes list, which the API server gave at resourceVersion rv, the pods that exist. A record that is newer than
// the list stays: it came from the answer of a write after the list.
func (x *Index) ReplacePods(list []Pod, rv string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	listed := make(map[types.UID]bool, len(list))
	for i := range list {
		listed[list[i].UID] = true
		x.putPod(list[i])
	}
	for uid, p := range x.pods {
		if !listed[uid] && !newer(p.RV, rv) {
			x.dropPod(uid)
		}
	}
	x.podsRV = rv
}

// PodsSeen records that the watch of pods has reached rv without a change (a bookmark).
func (x *Index) PodsSeen(rv string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.podsRV = rv
}

// Versions returns the newest resourceVersions that the watches of pods and of nodes have shown.
func (x *Index) Versions() (pods, nodes string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.podsRV, x.nodes.rv
}

// Doom records that a delete of the pod is about to be sent at that time: from now on it counts as terminating.
func (x *Index) Doom(uid types.UID, at rollout.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.pods[uid]; p != nil {
		p.doomed, p.doomedAt = true, at
	}
}

// Spare takes a Doom back: the API server has definitely refused the delete. Nobody is notified: whose delete was refused comes
// back by itself, with a growing delay.
func (x *Index) Spare(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.pods[uid]; p != nil {
		p.doomed, p.doomedAt = false, 0
		if s := x.byUID[p.Owner]; s != nil {
			delete(s.heirs, uid)
		}
	}
}

// Unsettle records that a delete was sent for the pod and no definite answer came: nothing may be decided for the set before
// it is settled.
func (x *Index) Unsettle(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.pods[uid]; p != nil && !p.Deleting {
		p.unsettled = true
		if s := x.byUID[p.Owner]; s != nil {
			s.unsettled[uid] = p
		}
	}
}

// Settle takes an Unsettle back.
func (x *Index) Settle(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.pods[uid]; p != nil {
		p.unsettled = false
		if s := x.byUID[p.Owner]; s != nil {
			delete(s.unsettled, uid)
		}
	}
}

// Claims are the changes of ownership that a set needs before anything may be decided for it.
type Claims struct {
	Adopt, Release []Pod
	// Unsettled are pods for which a delete was sent without a definite answer.
	Unsettled []Pod
	// Pending are creates without a definite answer, sorted by node.
	Pending []PendingCreate
	// Doubts are edits without a definite answer, sorted by pod.
	Doubts []Doubt
}

// PendingCreate is a create whose answer is not clear.
type PendingCreate struct {
	Node, Pod string
	// Until is when it will have taken effect if it ever does.
	Until rollout.Time
}

// Pend records that a create has no definite answer. Nothing is created on its node until Unpend.
func (x *Index) Pend(key Key, c PendingCreate) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, n := x.sets[key], x.nodes.byName[c.Node]; s != nil && n != nil {
		s.pending[n.id] = c
	}
}

// Unpend records that it is known what became of a create.
func (x *Index) Unpend(key Key, nodeName string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, n := x.sets[key], x.nodes.byName[nodeName]; s != nil && n != nil {
		delete(s.pending, n.id)
	}
}

// Claims returns what the set has to adopt, release and settle, each sorted by name.
func (x *Index) Claims(key Key) Claims {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.sets[key]
	if s == nil {
		return Claims{}
	}
	return Claims{
		Adopt: s.adoptable.sorted(), Release: s.foreign.sorted(), Unsettled: s.unsettled.sorted(),
		Doubts:  s.doubtful(),
		Pending: slices.SortedFunc(maps.Values(s.pending), func(a, b PendingCreate) int { return strings.Compare(a.Node, b.Node) }),
	}
}

func (ps podSet) sorted() []Pod {
	if len(ps) == 0 {
		return nil
	}
	list := make([]Pod, 0, len(ps))
	for _, p := range ps {
		list = append(list, p.Pod)
	}
	slices.SortFunc(list, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	return list
}
