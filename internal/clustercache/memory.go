// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/rollout"
)

// departed is what is remembered of a pod that is gone.
type departed struct {
	uid  types.UID
	hash string
	// next is the revision that the pod's node was to get next, if the pod was deleted for an update.
	next string
}

// wanted is the revision of the node's next pod: the new one if the update of the node continues, otherwise the one that it keeps.
func (d *departed) wanted() string {
	if d.next != "" {
		return d.next
	}
	return d.hash
}

// remember notes in its state that a pod is gone, rememberOn in that of a node.
func (s *set) remember(p *podRecord) { s.rememberOn(p.node, p) }

func (s *set) rememberOn(n *node, p *podRecord) {
	s.ensureState(n).last = &departed{uid: p.uid, hash: p.labels.hash, next: p.writes.Leave()}
}

// limited reports whether the set may hold nodes back, so that what they had before matters.
func (s *set) limited() bool { return s.governed || s.workload.Set.Limits != rollout.Limits{} }

// lastOf is the index of the revision that the last pod of a node had, or that the node was to get. If this
// process has not seen it, it is estimated: a node that is older than the wanted revision had the revision
// that most others still have (guessOf). So after a restart, a held node keeps the revision that it most
// likely had. A node that joined later counts as new, and so does one that was seen without a pod while it
// did not need one. Nothing is estimated for a set whose nodes get their first pods one by one.
func (l *revisionLookup) lastOf(s *set, c *nodeState, n *nodeView) int {
	h := &l.history
	switch {
	case !l.limited:
		return rollout.NoRevision
	case c.pods != nil:
		p := youngest(c.pods)
		if next := p.writes.Next(); next != "" {
			return l.index(next)
		}
		return l.of(p)
	case c.last != nil:
		return l.index(c.last.wanted())
	case c.fit == rollout.MayStay || c.fit == rollout.MustLeave:
		c.unused = true
		return rollout.NoRevision
	case c.unused:
		return rollout.NoRevision
	case s.workload.Set.Progressive || h.Updated == 0 || n.created == 0 || n.created >= h.Updated:
		return rollout.NoRevision
	}
	return l.guessOf(s)
}

// guessOf returns the revision that a node with an unknown revision most likely had: the one that most pods of the set have, except the wanted
// one; if several have the same number of pods, the newest. An abandoned canary is newer than the revision of the other nodes, and no node
// runs it. Without any pod, it is the revision before the wanted one. It is never a revision whose hash belongs to another revision that
// precedes it, because no pod has such a revision. Under a policy it is the one that the policy has committed.
func (l *revisionLookup) guessOf(s *set) int {
	if l.guessed {
		return l.guess
	}
	h := &l.history
	pods, elsewhere := make([]int, len(h.Revisions)), false
	for c := range s.all {
		for p := c.pods; p != nil; p = p.next {
			of := l.of(p)
			if of >= 0 {
				pods[of]++
			}
			elsewhere = elsewhere || of != h.Update
		}
	}
	l.guess, l.guessed = rollout.NoRevision, true
	committed := h.Committed
	if h.Unconfirmed && elsewhere {
		committed = h.Earlier
	}
	if committed != "" {
		l.guess = l.index(committed)
		return l.guess
	}
	for i := range h.Revisions {
		if i != h.Update && l.index(h.Revisions[i].Name) == i && (l.guess == rollout.NoRevision || pods[i] >= pods[l.guess]) {
			l.guess = i
		}
	}
	return l.guess
}

// index is the revision with that hash, or NoRevision.
func (l *revisionLookup) index(hash string) int {
	if i, known := l.history.Index[hash]; known {
		return i
	}
	return rollout.NoRevision
}

func youngest(pods *podRecord) *podRecord {
	best := pods
	for p := pods.next; p != nil; p = p.next {
		if cmp.Or(cmp.Compare(p.created, best.created), cmp.Compare(p.name, best.name)) > 0 {
			best = p
		}
	}
	return best
}
