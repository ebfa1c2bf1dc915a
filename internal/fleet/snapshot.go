// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// History is what a Snapshot needs to know of a set's revisions.
type History struct {
	// Revisions are the entries, oldest first; Update is the index of the one that the template describes now.
	Revisions []rollout.Revision
	Update    int
	// Index gives for the hash that a pod carries the index of its revision. Several hashes may lead to one revision:
	// revisions with equal data are the same one.
	Index map[string]int
	// Generation is the template generation of the set, -1 when not known: a pod that carries it is of revision Update,
	// whatever its hash (other versions of Kubernetes hash the same template differently).
	Generation int64
	// Since is when the set was made: the generation on a pod that is older counts the templates of another set.
	Since rollout.Time
	// Of is the workload whose template revision Update is; nil leaves open whether the history belongs to the newest one.
	Of *dialect.Workload
	// Updated is when revision Update was written to the history; 0 when that is not known.
	Updated rollout.Time
}

// Snapshot returns what Decide needs to know of the set at now, and when the earliest block of a node ends, or a change in place counts
// as arrived (0: never). ok is false
// when the set is gone, or is not what h belongs to any more.
func (x *Index) Snapshot(key Key, h History, now rollout.Time) (s rollout.Snapshot, unblock rollout.Time, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	set := x.sets[key]
	if set == nil || h.Of != nil && (set.workload.UID != h.Of.UID || set.workload.Generation != h.Of.Generation) {
		return rollout.Snapshot{}, 0, false
	}
	s = rollout.Snapshot{Now: now, Set: set.workload.Set, Revisions: h.Revisions}
	s.Set.Update = h.Update
	order := x.nodes.sorted()
	s.Nodes = make([]rollout.Node, 0, len(order))
	pods := make([]rollout.Pod, 0, set.podCount)
	lookup := revisionLookup{history: h}
	for _, n := range order {
		c := &set.cells[n.id]
		if !n.exists && c.pods == nil {
			continue // a ghost of another set
		}
		first := len(pods)
		for p := c.pods; p != nil; p = p.next {
			pods = append(pods, podOf(set.workload, p, lookup.of(p)))
			unblock = min0(unblock, arrive(&pods[len(pods)-1], p.Facts, now))
			pods[len(pods)-1].Announced = lookup.announced(p.Facts)
		}
		s.Nodes = append(s.Nodes, rollout.Node{
			Name: n.Name, Fit: c.fit, Gone: !n.exists, Ready: n.Ready, Since: n.Since, Pods: pods[first:len(pods):len(pods)],
			Selected: c.selected, Last: lookup.lastOf(set, c, n), Refused: set.refused[n.id],
		})
		if len(set.blocks)+len(set.pending) > 0 {
			unblock = min0(unblock, applyBlock(set, n.id, &s.Nodes[len(s.Nodes)-1], now))
		}
	}
	for _, d := range set.doubts {
		unblock = min0(unblock, max(d.doubt, now.Add(time.Second)))
	}
	return s, unblock, true
}

// applyBlock sets n.Blocked while the block of the node lasts and returns when it ends; an old one is dropped.
func applyBlock(s *set, id int, n *rollout.Node, now rollout.Time) rollout.Time {
	if c, pending := s.pending[id]; pending {
		n.Blocked = "it is not clear whether the create of pod " + c.Pod + " took effect"
		return max(c.Until, now.Add(time.Second))
	}
	b, blocked := s.blocks[id]
	if !blocked {
		return 0
	}
	if b.until <= now {
		delete(s.blocks, id)
		return 0
	}
	n.Blocked = b.reason
	return b.until
}

// min0 is the smaller of two times, where 0 is "never".
func min0(a, b rollout.Time) rollout.Time {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

func podOf(w *dialect.Workload, p *podRecord, revision int) rollout.Pod {
	pod := rollout.Pod{
		Name: p.Name, UID: string(p.UID), Revision: revision, Phase: p.Phase, Scheduled: p.Scheduled,
		Deleting: p.Deleting || p.doomed, DeletedAt: cmp.Or(p.DeletedAt, p.doomedAt), Ready: p.Ready, ReadySince: p.ReadySince, Created: p.Created,
		Doubtful: p.doubt != 0, NoResize: p.noResize,
	}
	if p.Facts != nil {
		pod.Evicted, pod.Trouble = p.Facts.Evicted, p.Facts.Trouble
		inPlaceOf(&pod, w, p.Facts)
	}
	if w.PreDelete != nil || p.Facts != nil {
		pod.Hook = w.PreDelete.State(p.Labels, p.Facts)
	}
	return pod
}

// arrive lets a change in place of which nobody can tell more count as arrived when its time has come, and returns that time before.
func arrive(pod *rollout.Pod, f *dialect.PodFacts, now rollout.Time) rollout.Time {
	if f == nil || f.ArrivesBy == 0 || f.InPlace != rollout.InPlacePatched {
		return 0
	}
	if now < f.ArrivesBy {
		return f.ArrivesBy
	}
	pod.InPlace = rollout.InPlaceArrived
	return 0
}

// inPlaceOf fills in how far a change in place has come.
func inPlaceOf(pod *rollout.Pod, w *dialect.Workload, f *dialect.PodFacts) {
	pod.Gate, pod.InPlace, pod.Stuck = f.Gate, f.InPlace, f.Stuck
	switch f.InPlace {
	case rollout.InPlaceMarked:
		pod.GraceUntil = f.MarkedAt.Add(w.Set.Grace)
	case rollout.InPlaceAnnounced:
		pod.GraceUntil = f.Due
		if pod.NoResize {
			pod.Stuck = rollout.DetailResizeRefused
		}
	}
}

// revisionLookup finds revisions of pods; most pods in a row carry the same hash, so the last answer is kept.
type revisionLookup struct {
	history  History
	lastHash string
	last     int
	valid    bool
}

func (l *revisionLookup) of(p *podRecord) int {
	// Another controller may have seen a newer template than the watch has shown us: its pods are not old.
	ahead := p.Generation > l.history.Generation && l.history.Of != nil && l.history.Of.Set.Guest
	if l.history.Generation >= 0 && (p.Generation == l.history.Generation || ahead) && p.Created >= l.history.Since {
		return l.history.Update
	}
	if l.valid && l.lastHash == p.Hash {
		return l.last
	}
	l.lastHash, l.last, l.valid = p.Hash, l.index(p.Hash), true
	return l.last
}

// announced is what a pod says of whether there is a newer revision.
func (l *revisionLookup) announced(f *dialect.PodFacts) rollout.Announced {
	if f == nil || !f.Announced.Said {
		return rollout.Announced{}
	}
	return rollout.Announced{Said: true, Old: f.Announced.Old, Revision: l.index(f.Announced.Hash)}
}

// Announced is whether any pod of the set says if there is a newer revision.
func (x *Index) Announced(key Key) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.sets[key]
	return s != nil && s.announced > 0
}

// Block keeps pods from being created for the set on the node until then, for the reason given.
func (x *Index) Block(key Key, nodeName, reason string, until rollout.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s, n := x.sets[key], x.nodes.byName[nodeName]
	if s != nil && n != nil {
		s.blocks[n.id] = block{reason: reason, until: until}
	}
}

// Refuse records why the API server has refused to create the set's pod for the node, until there is one or the set changes.
func (x *Index) Refuse(key Key, nodeName, why string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, n := x.sets[key], x.nodes.byName[nodeName]; s != nil && n != nil {
		s.refused[n.id] = why
	}
}

// LiveHashes returns the hashes that pods of the set carry, terminating and ended pods included, and those that a node without
// a pod is to get again if the set holds it back.
func (x *Index) LiveHashes(key Key) map[string]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	live := map[string]bool{}
	if s := x.sets[key]; s != nil {
		for id := range s.cells {
			c := &s.cells[id]
			for p := c.pods; p != nil; p = p.next {
				live[p.Hash] = true
			}
			if c.pods == nil && c.last != nil && s.limited() {
				live[c.last.wanted()] = true
			}
		}
	}
	return live
}

// Predecessor returns the UID of the pod whose successor would get podName on that node without further salt: a pod of the set
// that still holds this name, or else the last pod of the same revision that was there. It is empty when there is none.
func (x *Index) Predecessor(key Key, nodeName, podName, hash string) types.UID {
	x.mu.Lock()
	defer x.mu.Unlock()
	s, n := x.sets[key], x.nodes.byName[nodeName]
	if s == nil || n == nil {
		return ""
	}
	c := &s.cells[n.id]
	for p := c.pods; p != nil; p = p.next {
		if p.Name == podName {
			return p.UID
		}
	}
	if c.last != nil && c.last.hash == hash {
		return c.last.uid
	}
	return ""
}
