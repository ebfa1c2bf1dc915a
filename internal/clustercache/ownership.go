// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/rollout"
)

// Ownership are the changes of ownership that a set needs before anything may be decided for it.
type Ownership struct {
	// Adopt and Release are at most ownershipLimit pods, in the order of their names, that were not tried yet
	// and have no tried pod on their node. More reports whether there are others. An orphan on a node with a
	// create without an answer is not among them: the set would have two pods there.
	Adopt, Release []Pod
	More           bool
	// AdoptAgain and ReleaseAgain are those that are to be tried again now (Index.Block), DefaultBurst at most.
	AdoptAgain, ReleaseAgain []Pod
	// Uncertain are orphans that must not be adopted any more, of which it must be read whether an earlier adoption took effect (Block.Unclear).
	Uncertain []Pod
	// Unsettled are pods for which a delete was sent without a definite answer.
	Unsettled []UnsettledPod
	// Pending are creates without a definite answer, sorted by node.
	Pending []inflight.Write
	// Doubts are edits without a definite answer, sorted by pod.
	Doubts []Doubt
}

// mayBeAdopted reports whether the adoption of a pod may have taken effect although no event shows it.
func (ps podSet) mayBeAdopted(b inflight.Block) bool {
	p := ps[b.Pod]
	return b.Unclear && p != nil && p.origin.owner == ""
}

// ownershipBlock returns the block of a pod, if it is about adopting or releasing the pod; otherwise a block of another pod on its node.
func (s *set) ownershipBlock(p *podRecord) (inflight.Block, bool) {
	if p.node == nil {
		return s.writes.BlockedUnplaced(p.uid)
	}
	return s.writes.Blocked(p.node.id, p.uid)
}

// ownershipLimit exceeds what a pass adopts or releases. Any user can create 100,000 pods that a set selects, and all are evaluated with the index locked.
const ownershipLimit = 2 * rollout.DefaultBurst

// Ownership returns what the set must adopt, release and settle now, each sorted by name.
func (x *Index) Ownership(key Key, now rollout.Time) Ownership {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.sets[key]
	if s == nil {
		return Ownership{}
	}
	unsettled, doubts := s.unclear()
	fresh := func(p *podRecord) bool {
		_, blocked := s.ownershipBlock(p)
		return !blocked
	}
	alone := func(p *podRecord) bool { return fresh(p) && (p.node == nil || !s.writes.Creating(p.node.id)) }
	due := func(p *podRecord) bool {
		b, blocked := s.ownershipBlock(p)
		return blocked && b.Pod == p.uid && b.Due(now)
	}
	adopt, moreAdopt := s.adoptable.least(ownershipLimit, alone)
	release, moreRelease := s.foreign.least(ownershipLimit, fresh)
	adoptAgain, _ := s.adoptable.least(rollout.DefaultBurst, due)
	releaseAgain, _ := s.foreign.least(rollout.DefaultBurst, due)
	mayBeAdopted := podSet{}
	for b := range s.writes.Blocks {
		if s.adoptable[b.Pod] == nil && x.pods.mayBeAdopted(b) {
			mayBeAdopted[b.Pod] = x.pods[b.Pod]
		}
	}
	uncertain, _ := mayBeAdopted.least(rollout.DefaultBurst, due)
	return Ownership{
		Uncertain: uncertain,
		Adopt:     adopt, Release: release, More: moreAdopt || moreRelease, AdoptAgain: adoptAgain, ReleaseAgain: releaseAgain, Unsettled: unsettled,
		Doubts:  doubts,
		Pending: s.writes.Creates(),
	}
}
