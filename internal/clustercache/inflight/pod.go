// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"cmp"
	"math"

	"everynode.dev/everynode/internal/rollout"
)

// Pod is what is under way for one pod. The zero value is nothing, and so is nil for what only reads it.
type Pod struct {
	// deleted reports whether a delete has begun or took effect, and deletedAt when it began.
	deleted bool
	// takes is whether the edit in doubt takes the pod out of use.
	takes    bool
	noResize bool
	// edits and deletes are how many of them were refused because another client had changed the pod, since the last edit that took effect.
	edits, deletes uint8
	deletedAt      rollout.Time
	// deleteBy and editBy are until when a delete and an edit without a definite answer may take effect; 0 for none.
	deleteBy, editBy rollout.Time
	next             string
}

// Begin assumes a write.
func (p *Pod) Begin(w Write) {
	switch {
	case w.Verb == Edit:
		p.editBy, p.takes = w.Until, w.Takes
	case w.Until != 0: // it has begun before, and is being sent
		p.deleteBy = w.Until
	default:
		p.deleted, p.deletedAt, p.next = true, w.At, cmp.Or(w.Next, p.next)
	}
}

// Resolve takes the outcome of a write.
func (p *Pod) Resolve(w Write, o Outcome) {
	if o == Differed {
		n := p.conflicts(w.Verb)
		*n = min(*n, math.MaxUint8-1) + 1
	}
	switch {
	case o == Unclear && w.Verb == Edit:
		p.editBy, p.takes = w.Until, w.Takes
	case o == Unclear:
		p.deleteBy = w.Until
	case w.Verb == Edit: // it took effect or not: the cache has what the pod is like
		p.editBy, p.takes, p.noResize = 0, false, p.noResize || o == NoResize
		if o == TookEffect {
			p.edits, p.deletes = 0, 0
		}
	case o == TookEffect:
		p.deleteBy = 0
	default:
		p.deleted, p.deletedAt, p.deleteBy, p.next = false, 0, 0, ""
	}
}

// Nothing reports whether nothing is under way.
func (p *Pod) Nothing() bool { return p == nil || *p == Pod{} }

// DeleteBy is until when a delete without a definite answer may take effect; 0 if there is none.
func (p *Pod) DeleteBy() rollout.Time {
	if p == nil {
		return 0
	}
	return p.deleteBy
}

// EditBy is until when an edit without a definite answer may take effect; 0 if there is none.
func (p *Pod) EditBy() rollout.Time {
	if p == nil {
		return 0
	}
	return p.editBy
}

// Conflicts is how many edits or deletes were refused because another client had changed the pod, since the last edit that took effect.
func (p *Pod) Conflicts(of Verb) int {
	if p == nil {
		return 0
	}
	return int(*p.conflicts(of))
}

func (p *Pod) conflicts(of Verb) *uint8 {
	if of == Edit {
		return &p.edits
	}
	return &p.deletes
}

// Next is the hash of the revision that the node of the pod gets next, because the pod is deleted for an update; empty if it is not.
func (p *Pod) Next() string {
	if p == nil {
		return ""
	}
	return p.next
}

// Over applies the writes in flight to the cached state of the pod.
func (p *Pod) Over(pod *rollout.Pod) {
	if p == nil {
		return
	}
	if p.deleted {
		pod.Deleting, pod.DeletedAt = true, cmp.Or(pod.DeletedAt, p.deletedAt)
	}
	pod.Doubtful, pod.NoResize = p.editBy != 0 && p.takes, p.noResize
}

// Leave is Next for a pod that leaves its node, where the promise ends with that.
func (p *Pod) Leave() (next string) {
	if p != nil {
		next, p.next = p.next, ""
	}
	return next
}
