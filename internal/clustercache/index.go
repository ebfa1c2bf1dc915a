// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// Index holds the records. It is safe for concurrent use.
type Index struct {
	// notify is called, under the lock, with the key of each set that an event concerns. It must not block and must not
	// call the Index.
	notify func(Key)
	// read reads the data of a pod that only some dialects need; nil for none.
	read dialect.FactsFunc

	mu    sync.Mutex
	nodes nodeTable
	// pods holds every pod that is kept, by UID; podsRV is the newest resourceVersion that the watch of pods has shown.
	pods   podSet
	podsRV string
	// confirmedDeleted are pods that are known to be gone, with the newest version that was known of each, until the watch has shown that too.
	confirmedDeleted map[types.UID]string
	// absentSince contains for names of pods the resourceVersion at which no such pod existed, until the watch has reached that version.
	absentSince map[podName]string
	// sets by key and by the UID of the object.
	sets  map[Key]*set
	byUID map[types.UID]*set
	// spaces are the sets of each namespace: a pod without an owner is looked at by those of its own.
	spaces map[string]map[Key]*set
	// withoutSet are pods whose controller is a daemon set that is not known (yet), by its UID.
	withoutSet map[types.UID]podSet
	// orphans are pods without a controller, by namespace.
	orphans   map[string]podSet
	revisions revisionTable
	labels    labelTable
	origins   originTable
	agents    agentTable
}

type podSet map[types.UID]*podRecord

// NewIndex returns an empty Index that calls notify for every set that an event concerns.
func NewIndex(notify func(Key)) *Index {
	return &Index{
		notify:           notify,
		nodes:            newNodeTable(),
		pods:             map[types.UID]*podRecord{},
		confirmedDeleted: map[types.UID]string{},
		absentSince:      map[podName]string{},
		sets:             map[Key]*set{},
		byUID:            map[types.UID]*set{},
		spaces:           map[string]map[Key]*set{},
		withoutSet:       map[types.UID]podSet{},
		orphans:          map[string]podSet{},
		revisions:        newRevisionTable(),
		labels:           labelTable{},
		origins:          originTable{},
		agents:           agentTable{count: map[string]int{}},
	}
}

// set is one daemon set and its states.
type set struct {
	key      Key
	workload *dialect.Workload
	// states is indexed by the id of the node; missing nodes are those of nodes that do not exist and that something is known of.
	states  []nodeState
	missing map[int]*missingNode
	// governed reports whether a rollout policy may hold nodes back: then labels of nodes matter, and what a node had before.
	governed bool
	// podCount is the number of pods in all states, so that a Snapshot can allocate once.
	podCount int
	// announced is the number of pods that announce whether there is a newer revision.
	announced int
	// unplaced are pods of the set that name no node at all.
	unplaced podSet
	// foreign are owned pods whose labels the selector does not match (any more): to be released.
	foreign podSet
	// adoptable are orphans that the selector matches.
	adoptable podSet
	// open are pods with a write without a definite answer.
	open podSet
	// writes are our writes that no watch has shown yet, except writes to existing pods.
	writes *inflight.Set
}

// state is one (set, node) pair.
type nodeState struct {
	fit rollout.Fit
	// selected reports whether the set's NodeSelector matches the node.
	selected bool
	// unused reports whether the node had no pod while it did not need one.
	unused bool
	pods   *podRecord // linked by next
	// last is the pod that left the state last; nil when none has since this process began to watch.
	last *departed
}

// newer reports whether resourceVersion a is newer than b; what cannot be compared counts as newer, so that it is taken.
func newer(a, b string) bool {
	if b == "" {
		return true
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c > 0
}

// PutSet adds or replaces a set. A set with the same key and another UID is another set: the old one's pods become
// pods without a set.
func (x *Index) PutSet(key Key, w *dialect.Workload) {
	places := x.evaluate(key, w)
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.sets[key]
	if s != nil && s.workload.UID != w.UID {
		x.dropSet(s)
		s = nil
	}
	if s == nil {
		s = &set{key: key, unplaced: podSet{}, foreign: podSet{}, adoptable: podSet{}, open: podSet{}, writes: inflight.NewSet()}
		s.workload = w
		x.enter(s)
		x.place(s, places)
		x.takeWithoutSet(s)
		x.findAdoptable(s)
	} else {
		was := s.workload
		s.workload = w
		if was.Generation != w.Generation {
			if places != nil {
				x.place(s, places)
			}
			s.writes.Changed()
		}
		if sameForUs(was, w) {
			return
		}
	}
	x.notify(key)
}

// enter files a set.
func (x *Index) enter(s *set) {
	x.sets[s.key], x.byUID[s.workload.UID] = s, s
	space := s.workload.Namespace
	if x.spaces[space] == nil {
		x.spaces[space] = map[Key]*set{}
	}
	x.spaces[space][s.key] = s
}

// leave takes a set out of where enter has put it.
func (x *Index) leave(s *set) {
	delete(x.sets, s.key)
	delete(x.byUID, s.workload.UID)
	space := s.workload.Namespace
	if delete(x.spaces[space], s.key); len(x.spaces[space]) == 0 {
		delete(x.spaces, space)
	}
}

// takeWithoutSet attaches the pods of a set that were there before it was known.
func (x *Index) takeWithoutSet(s *set) {
	pods := x.withoutSet[s.workload.UID]
	for uid, p := range pods {
		if s.is(p.origin.originID) {
			x.attach(s, p)
			delete(pods, uid)
		}
	}
	if len(pods) == 0 {
		delete(x.withoutSet, s.workload.UID)
	}
}

// sameForUs reports whether two versions of one set differ in nothing that a pass would look at: so the event of our own status
// write, which was observed, leads to no further pass.
func sameForUs(a, b *dialect.Workload) bool {
	return a.Generation == b.Generation && a.Deleting == b.Deleting && a.Status == b.Status &&
		a.ObservedGeneration == b.ObservedGeneration && equalCount(a.CollisionCount, b.CollisionCount) &&
		a.UpdateRevision == b.UpdateRevision && slices.Equal(a.Conditions, b.Conditions) &&
		maps.Equal(a.Annotations, b.Annotations) && maps.Equal(a.Labels, b.Labels)
}

func equalCount(a, b *int32) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// ObserveStatus takes over the status from the API server's answer to a status write.
func (x *Index) ObserveStatus(key Key, written *dialect.Workload) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.sets[key]
	if s == nil || s.workload.UID != written.UID {
		return
	}
	w := *s.workload // others read the old one
	w.Status, w.ObservedGeneration = written.Status, max(written.ObservedGeneration, w.ObservedGeneration)
	w.UpdateRevision, w.Conditions = written.UpdateRevision, written.Conditions
	s.workload = &w
}

// Notify asks for a pass for the set.
func (x *Index) Notify(key Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.notify(key)
}

// DeleteSet removes a set; its pods become pods without a set until they are gone or orphaned.
func (x *Index) DeleteSet(key Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.sets[key]; s != nil {
		x.dropSet(s)
		x.notify(key)
	}
}

// ReplaceSets makes sets the sets of the dialect, removing those that are not among them.
func (x *Index) ReplaceSets(dialectName string, sets map[Key]*dialect.Workload) {
	x.mu.Lock()
	var gone []Key
	for key := range x.sets {
		if _, ok := sets[key]; !ok && key.Dialect == dialectName {
			gone = append(gone, key)
		}
	}
	x.mu.Unlock()
	for _, key := range gone {
		x.DeleteSet(key)
	}
	for key, w := range sets {
		x.PutSet(key, w)
	}
}

func (x *Index) dropSet(s *set) {
	for c := range s.all {
		for p := c.pods; p != nil; p = p.next {
			x.keepWithoutSet(p)
		}
	}
	for _, p := range s.unplaced {
		x.keepWithoutSet(p)
	}
	x.leave(s)
	for _, g := range s.missing {
		delete(g.node.sets, s)
		x.forgetMissingNode(g.node)
	}
}

func (x *Index) keepWithoutSet(p *podRecord) {
	owner := p.origin.owner
	if x.withoutSet[owner] == nil {
		x.withoutSet[owner] = podSet{}
	}
	x.withoutSet[owner][p.uid] = p
}

// Workload returns the set's newest workload; nil when there is none.
func (x *Index) Workload(key Key) *dialect.Workload {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.sets[key]; s != nil {
		return s.workload
	}
	return nil
}

// Keys returns the keys of all sets of a dialect, in no order.
func (x *Index) Keys(dialectName string) []Key {
	x.mu.Lock()
	defer x.mu.Unlock()
	var keys []Key
	for key := range x.sets {
		if key.Dialect == dialectName {
			keys = append(keys, key)
		}
	}
	return keys
}
