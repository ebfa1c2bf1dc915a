// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/clustercache/inflight"
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
	// Generation is the template generation of the set, -1 when not known: a pod that carries it, and a hash that is not in Index, is of revision
	// Update (other versions of Kubernetes hash the same template differently).
	Generation int64
	// Since is when the set was created: the generation on an older pod counts the templates of another set.
	Since rollout.Time
	// Of is the workload whose template revision Update is; nil leaves open whether the history belongs to the newest one.
	Of *dialect.Workload
	// Updated is when revision Update was written to the history; 0 when that is not known.
	Updated rollout.Time
	// Committed is the hash of the revision that a policy has committed last; empty if there is none, or no policy governs the set.
	Committed string
	// Unconfirmed is whether Committed is the target because of a mark alone, which others may have written: then it does not count while a pod has another
	// revision, as in package policy, and Earlier, the hash of the revision with the newest other mark, counts; if that is empty, the one of most pods.
	Unconfirmed bool
	Earlier     string
}

// Buffer is the memory of a Snapshot; the next Snapshot reuses it when the last one is no longer needed. The zero value is empty.
type Buffer struct {
	nodes []rollout.Node
	pods  []rollout.Pod
}

// room empties the buffer, and ensures capacity for this number of nodes and pods. A slice that grows gets an eighth more than it needs, so that
// a cluster that grows by single nodes does not need new memory each time.
func (b *Buffer) room(nodes, pods int) {
	if cap(b.nodes) < nodes {
		b.nodes = make([]rollout.Node, 0, nodes+nodes/8)
	}
	if cap(b.pods) < pods {
		b.pods = make([]rollout.Pod, 0, pods+pods/8)
	}
	b.nodes, b.pods = b.nodes[:0], b.pods[:0]
}

// next appends an empty node, for which there is room.
func (b *Buffer) next() *rollout.Node {
	b.nodes = b.nodes[:len(b.nodes)+1]
	n := &b.nodes[len(b.nodes)-1]
	*n = rollout.Node{}
	return n
}

// Snapshot is SnapshotInto with memory of its own.
func (x *Index) Snapshot(key Key, h History, now rollout.Time) (s rollout.Snapshot, unblock rollout.Time, ok bool) {
	return x.SnapshotInto(&Buffer{}, key, h, now)
}

// SnapshotInto returns what Decide needs to know of the set at now, and when the earliest block of a node ends, or a change in place
// counts as arrived (0: never). ok is false when the set is gone, or is not what h belongs to any more. The nodes and pods of the Snapshot
// are in b, and hold until b is used again.
func (x *Index) SnapshotInto(b *Buffer, key Key, h History, now rollout.Time) (s rollout.Snapshot, unblock rollout.Time, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	set := x.sets[key]
	if set == nil || h.Of != nil && (set.workload.UID != h.Of.UID || set.workload.Generation != h.Of.Generation) {
		return rollout.Snapshot{}, 0, false
	}
	s = rollout.Snapshot{Now: now, Set: set.workload.Set, Revisions: h.Revisions}
	s.Set.Update = h.Update
	order := x.nodes.sorted()
	ghosts := set.missingWithPods()
	b.room(len(order)+len(ghosts), set.podCount)
	lookup := revisionLookup{now: now, history: h, limited: set.limited()}
	if !set.writes.Nothing() {
		lookup.claimed = func(b inflight.Block) bool {
			return set.adoptable[b.Pod] != nil || set.foreign[b.Pod] != nil || x.pods.mayBeAdopted(b)
		}
	}
	for i := range order {
		n := &order[i]
		for len(ghosts) > 0 && ghosts[0].node.Name < n.name {
			unblock = min0(unblock, b.missingNode(set, ghosts[0], &lookup))
			ghosts = ghosts[1:]
		}
		unblock = min0(unblock, b.node(set, n, &set.states[n.id], &lookup))
	}
	for _, g := range ghosts {
		unblock = min0(unblock, b.missingNode(set, g, &lookup))
	}
	s.Nodes = b.nodes
	if len(set.open) > 0 || set.writes.AnyCreate() { // be it on a node that is gone
		unblock = min0(unblock, now.Add(inflight.AskAgain))
	}
	return s, unblock, true
}

// missingNode appends a node that does not exist.
func (b *Buffer) missingNode(set *set, g *missingNode, lookup *revisionLookup) (unblock rollout.Time) {
	unseen := g.node.view()
	unblock = b.node(set, &unseen, &g.nodeState, lookup)
	b.nodes[len(b.nodes)-1].Gone = true
	return unblock
}

// node appends a node with its pods, and returns when it is to be looked at again.
func (b *Buffer) node(set *set, n *nodeView, c *nodeState, lookup *revisionLookup) (unblock rollout.Time) {
	first, now := len(b.pods), lookup.now
	for p := c.pods; p != nil; p = p.next {
		unblock = min0(unblock, b.add(set.workload, p, lookup, now))
	}
	node := b.next()
	node.Name, node.Fit, node.Selected = n.name, c.fit, c.selected
	node.Ready, node.Since, node.Joined, node.Last = n.ready, n.since, n.created, lookup.lastOf(set, c, n)
	node.Pods = b.pods[first:len(b.pods):len(b.pods)]
	if len(set.open) > 0 {
		node.Blocked = unclearDelete(c)
		node.Unanswered = node.Blocked != ""
	}
	if lookup.claimed != nil {
		unblock = min0(unblock, set.writes.Over(n.id, node, now, lookup.claimed))
	}
	return unblock
}

// unclearDelete is the reason why a node must wait where a delete had no definite answer: its pod counts as terminating, and if it is not, a set that
// surges would add a third one to two, or begin on another node.
func unclearDelete(c *nodeState) string {
	for p := c.pods; p != nil; p = p.next {
		if p.unclearDelete() {
			return "it is not clear whether the delete of pod " + p.name + " took effect"
		}
	}
	return ""
}

// min0 is the smaller of two times, where 0 is "never".
func min0(a, b rollout.Time) rollout.Time {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// add appends a pod, and returns when a change in place of it counts as arrived.
func (b *Buffer) add(w *dialect.Workload, p *podRecord, lookup *revisionLookup, now rollout.Time) (arrives rollout.Time) {
	b.pods = b.pods[:len(b.pods)+1]
	pod := &b.pods[len(b.pods)-1]
	*pod = rollout.Pod{}
	pod.Name, pod.UID, pod.Revision, pod.Phase, pod.Scheduled = p.name, string(p.uid), lookup.of(p), p.phase, p.scheduled
	pod.Deleting, pod.DeletedAt = p.deleting, p.deletedAt
	pod.Ready, pod.ReadySince, pod.Created = p.ready, p.readySince, p.created
	pod.Waiting, pod.Pull, pod.Restarts, pod.OtherRestarts, pod.Ended, pod.ExitCode = p.waiting, p.pull, p.restarts, p.otherRestarts, p.ended, p.exitCode
	p.writes.Over(pod)
	if w.PreDelete == nil && p.facts == nil {
		return 0
	}
	if p.facts != nil {
		pod.Evicted, pod.Trouble = p.facts.Evicted, p.facts.Trouble
		inPlaceOf(pod, w, p.facts, now)
	}
	pod.Hook = w.PreDelete.State(p.labels.set, p.facts)
	pod.Announced = lookup.announced(p.facts)
	return arrive(pod, p.facts, now)
}

// maxAhead is how far a time on a pod may lie in the future: the clocks of successive leaders may differ by
// minutes, and this must not shorten what the time protects (a node that may not have processed a change yet,
// a grace period that has just begun).
const maxAhead = 10 * time.Minute

// ahead reports whether a time on a pod was set by a clock that is so wrong that the time is meaningless: waiting for it might take days, with the pod out of use.
func ahead(noted, now rollout.Time) bool { return noted > now.Add(maxAhead) }

// arrive lets a change in place count as arrived after a time if no report on it can follow any more, and returns that time before.
func arrive(pod *rollout.Pod, f *dialect.PodFacts, now rollout.Time) rollout.Time {
	if f == nil || f.ArrivesBy == 0 || f.InPlace != rollout.InPlacePatched {
		return 0
	}
	if now < f.ArrivesBy && !ahead(f.ArrivesBy, now) {
		return f.ArrivesBy
	}
	pod.Arrive()
	return 0
}

// inPlaceOf fills in how far a change in place has come. A grace period that began by another clock has ended, and so has the time for a restart.
func inPlaceOf(pod *rollout.Pod, w *dialect.Workload, f *dialect.PodFacts, now rollout.Time) {
	pod.Gate, pod.InPlace, pod.Open, pod.Stuck, pod.Recreates = f.Gate, f.InPlace, f.Open, f.Stuck, f.Recreates
	pod.Starting, pod.Interrupted = f.Starting, f.Interrupted
	if pod.Ready && !ahead(f.ReadyAfter, now) {
		pod.ReadySince = max(pod.ReadySince, f.ReadyAfter)
	}
	if f.Patience > 0 && !ahead(f.PatchedAt, now) {
		pod.StuckAt = f.PatchedAt.Add(f.Patience)
	}
	switch f.InPlace {
	case rollout.InPlaceMarked:
		pod.GraceUntil = f.MarkedAt.Add(w.Set.Grace)
	case rollout.InPlaceAnnounced:
		pod.GraceUntil = f.Due
		if pod.NoResize {
			pod.Stuck = rollout.DetailResizeRefused
		}
	}
	if ahead(f.MarkedAt, now) {
		pod.GraceUntil = 0
	}
}

// revisionLookup finds revisions of pods; most pods in a row carry the same hash, so the last answer is kept.
type revisionLookup struct {
	now      rollout.Time
	history  History
	lastHash string
	last     int
	valid    bool
	// limited applies to the whole set.
	limited bool
	// claimed reports whether the pod of a block is still to be adopted or released; nil where nothing is under way for any node.
	claimed func(inflight.Block) bool
	// guess is what guessOf has said, if it was asked.
	guess   int
	guessed bool
}

func (l *revisionLookup) of(p *podRecord) int {
	// Another controller may have seen a newer template than the watch has shown us: its pods are not old.
	ahead := p.generation > l.history.Generation && l.history.Of != nil && l.history.Of.Set.ExternalController
	if l.history.Generation >= 0 && (p.generation == l.history.Generation || ahead) && l.ofThisSet(p) {
		return l.history.Update
	}
	if l.valid && l.lastHash == p.labels.hash {
		return l.last
	}
	l.lastHash, l.last, l.valid = p.labels.hash, l.index(p.labels.hash), true
	return l.last
}

// ofThisSet reports whether the generation on a pod counts the templates of this set. A known hash takes precedence: the same number may have counted
// a template of an earlier set, or of this one before the storage was restored from a backup. An external set's template may be newer than what it has been shown.
func (l *revisionLookup) ofThisSet(p *podRecord) bool {
	if external := l.history.Of != nil && l.history.Of.Set.ExternalController; !external {
		if _, known := l.history.Index[p.labels.hash]; known {
			return false
		}
	}
	return p.created >= l.history.Since
}

// announced is what a pod announces about a newer revision.
func (l *revisionLookup) announced(f *dialect.PodFacts) rollout.Announced {
	if f == nil || !f.Announced.Said {
		return rollout.Announced{}
	}
	return rollout.Announced{Said: true, Old: f.Announced.Old, Revision: int32(l.index(f.Announced.Hash))}
}

// Announced reports whether any pod of the set says if there is a newer revision.
func (x *Index) Announced(key Key) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.sets[key]
	return s != nil && s.announced > 0
}

// LiveHashes returns the hashes that pods of the set carry, terminating and ended pods included, and those that a node without
// a pod is to get again if the set holds it back.
func (x *Index) LiveHashes(key Key) map[string]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	live := map[string]bool{}
	if s := x.sets[key]; s != nil {
		for c := range s.all {
			for p := c.pods; p != nil; p = p.next {
				live[p.labels.hash] = true
			}
			if c.pods == nil && c.last != nil && s.limited() {
				live[c.last.wanted()] = true
			}
		}
	}
	return live
}

// OldestPods returns for each hash that pods of the set carry when the first of these pods was created.
func (x *Index) OldestPods(key Key) map[string]rollout.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	oldest := map[string]rollout.Time{}
	if s := x.sets[key]; s != nil {
		for c := range s.all {
			for p := c.pods; p != nil; p = p.next {
				if at, known := oldest[p.labels.hash]; !known || p.created < at {
					oldest[p.labels.hash] = p.created
				}
			}
		}
	}
	return oldest
}

// Fit reports whether the set must, may or must not run a pod on a node of that name as it is now; MustLeave for one that does not exist.
func (x *Index) Fit(key Key, nodeName string) rollout.Fit {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, n := x.sets[key], x.nodes.byName[nodeName]; s != nil && n != nil && n.exists {
		return s.states[n.id].fit
	}
	return rollout.MustLeave
}

// Holder returns the UID of the pod of the set on that node that has that name; it is empty when there is none.
func (x *Index) Holder(key Key, nodeName, podName string) types.UID {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, n := x.sets[key], x.nodes.byName[nodeName]; s != nil && n != nil {
		return s.state(n).holder(podName)
	}
	return ""
}

// holder is the UID of the pod of that name in the state, which may be nil.
func (c *nodeState) holder(podName string) types.UID {
	if c == nil {
		return ""
	}
	for p := c.pods; p != nil; p = p.next {
		if p.name == podName {
			return p.uid
		}
	}
	return ""
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
	c := s.state(n)
	if uid := c.holder(podName); uid != "" {
		return uid
	}
	if c != nil && c.last != nil && c.last.hash == hash {
		return c.last.uid
	}
	return ""
}
