// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/rollout"
)

// Set is what is under way for the nodes of one set. A node has the number under which the cache keeps it.
type Set struct {
	// creates are those without a definite answer.
	creates map[int]Write
	// blocks are the reasons why nodes are not changed: one for each pod, and one that concerns no pod. unplaced has the same for pods without a known node.
	blocks   map[int][]Block
	unplaced map[types.UID]Block
	// refused are the nodes for which the API server has refused the last write.
	refused map[int]*refusal
	// lastRefusal is the message of the last one.
	lastRefusal string
}

// NewSet is a Set for which nothing is under way.
func NewSet() *Set {
	return &Set{creates: map[int]Write{}, blocks: map[int][]Block{}, unplaced: map[types.UID]Block{}, refused: map[int]*refusal{}}
}

// Block is the reason why a node is not changed, with the time when it begins and ends.
type Block struct {
	Reason      string
	From, Until rollout.Time
	// Pod is the UID of a pod there that is not adopted or released yet, because that was refused, or has no answer; empty for another reason. Such a block
	// lasts until the pod has gone or is no longer to be adopted or released, and Until is when to try again.
	Pod types.UID
	// Unclear reports whether an adoption of the pod may have taken effect although no event shows that.
	Unclear bool
}

// Due reports whether to try again. A block that begins later was noted by a clock that has been set back since.
func (b Block) Due(now rollout.Time) bool { return now < b.From || b.Until <= now }

// Begin assumes a create.
func (s *Set) Begin(node int, w Write) { s.creates[node] = w }

// Resolve takes the outcome of a create, or of a claim.
func (s *Set) Resolve(node int, w Write, o Outcome) {
	switch {
	case w.Verb == Create && o == Unclear:
		s.creates[node] = w
	case w.Verb == Create:
		delete(s.creates, node)
	case w.Verb == Claim:
		s.unblock(node, func(b Block) bool { return b.Pod == w.UID })
	}
}

// unblock drops blocks of a node.
func (s *Set) unblock(node int, drop func(Block) bool) {
	switch left := slices.DeleteFunc(slices.Clone(s.blocks[node]), drop); len(left) {
	case len(s.blocks[node]):
	case 0:
		delete(s.blocks, node)
	default:
		s.blocks[node] = left
	}
}

// Creating reports whether a create for a node has no definite answer.
func (s *Set) Creating(node int) bool {
	_, creating := s.creates[node]
	return creating
}

// AnyCreate reports whether any create has no definite answer.
func (s *Set) AnyCreate() bool { return len(s.creates) > 0 }

// Creates are the creates without a definite answer, sorted by node.
func (s *Set) Creates() []Write {
	return slices.SortedFunc(maps.Values(s.creates), func(a, b Write) int { return strings.Compare(a.Node, b.Node) })
}

// Block keeps a node as it is. It replaces an earlier block that is about the same pod, or about none as well.
func (s *Set) Block(node int, b Block) {
	s.unblock(node, func(old Block) bool { return old.Pod == b.Pod })
	s.blocks[node] = append(s.blocks[node], b)
}

// BlockUnplaced is Block for a pod that no node is known of, and Unblock ends that.
func (s *Set) BlockUnplaced(b Block) { s.unplaced[b.Pod] = b }

// Unblock is for a pod that has gone, or has been adopted or released.
func (s *Set) Unblock(uid types.UID) { delete(s.unplaced, uid) }

// Blocked returns the block of a node with a pod that is to be adopted or released: the block of this pod, or otherwise of another one.
func (s *Set) Blocked(node int, pod types.UID) (Block, bool) {
	var found Block
	for _, b := range s.blocks[node] {
		if b.Pod == pod || b.Pod != "" && found.Pod == "" {
			found = b
		}
	}
	return found, found.Pod != ""
}

// BlockedUnplaced is Blocked for a pod that no node is known of.
func (s *Set) BlockedUnplaced(uid types.UID) (Block, bool) {
	b, blocked := s.unplaced[uid]
	return b, blocked
}

// Blocks are all, in no order.
func (s *Set) Blocks(yield func(Block) bool) {
	for _, blocks := range s.blocks {
		for _, b := range blocks {
			if !yield(b) {
				return
			}
		}
	}
}

// Changed handles a change of the template or the limits of the set: writes that were refused before may be accepted now.
func (s *Set) Changed() {
	for node := range s.blocks {
		s.unblock(node, func(b Block) bool { return b.Pod == "" })
	}
	clear(s.refused)
}

// Leave handles a node that is gone while its pods still exist. What has no definite answer outlives it: a create, whose pod may still come, and the adoption of a
// pod. The node may come back.
func (s *Set) Leave(node int) {
	s.unblock(node, func(b Block) bool { return b.Pod == "" })
	delete(s.refused, node)
}

// Forget handles a node that is gone and has no pods. A create without a definite answer outlives it.
func (s *Set) Forget(node int) {
	delete(s.blocks, node)
	delete(s.refused, node)
}

// Renumber is for a node that has another number from now on.
func (s *Set) Renumber(was, is int) {
	move(s.blocks, was, is)
	move(s.refused, was, is)
	move(s.creates, was, is)
}

func move[V any](m map[int]V, was, is int) {
	if v, has := m[was]; has {
		m[is] = v
		delete(m, was)
	}
}

// Nothing reports whether nothing is under way.
func (s *Set) Nothing() bool { return len(s.creates)+len(s.blocks)+len(s.refused) == 0 }

// AskAgain is the delay of the next pass for a write without a clear answer. Its end is measured by another clock than that of a Snapshot, which a user may
// change.
const AskAgain = time.Second

// Over applies the writes in flight to the cached state of a node, and returns when to check again; 0 for never. open is whether the pod of a block is
// still to be adopted or released. A block that has ended is dropped, and so, after one more pass, is one that has not begun: the clock was set back since, and
// how much of the block is left is not known.
func (s *Set) Over(id int, n *rollout.Node, now rollout.Time, open func(Block) bool) rollout.Time {
	if len(s.refused) > 0 {
		n.Refusal = s.refused[id].seenAt(now)
	}
	if len(s.blocks)+len(s.creates) == 0 {
		return 0
	}
	if c, creating := s.creates[id]; creating {
		n.Blocked, n.Unanswered = "it is not clear whether the create of pod "+c.Pod+" took effect", true
		if c.Slow {
			n.Blocked = "the API server has not answered the create of pod " + c.Pod + " yet"
		}
		return now.Add(AskAgain)
	}
	if len(s.blocks[id]) == 0 {
		return 0
	}
	s.unblock(id, func(b Block) bool { return b.Pod != "" && !open(b) || b.Pod == "" && b.Until <= now && b.From <= now })
	var again rollout.Time
	for _, b := range s.blocks[id] {
		if n.Blocked == "" {
			n.Blocked = b.Reason
		}
		at := b.Until
		if b.Due(now) {
			at = now.Add(AskAgain) // or this pass had no room for it
		}
		if again == 0 || at < again {
			again = at
		}
	}
	// A block that has not begun: because the clock was fast, this pass may have skipped the pod that is in the way, and the next pass will not.
	s.unblock(id, func(b Block) bool { return b.Pod == "" && b.Due(now) })
	return again
}
