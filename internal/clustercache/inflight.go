// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/rollout"
)

// Begin records that a write of ours begins, before it is sent. It notifies no set, and neither does what follows: the set is the one that writes.
func (x *Index) Begin(w inflight.Write) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w.Verb == inflight.Create {
		x.create(w, func(s *set, n *node) { s.writes.Begin(n.id, w) })
		return
	}
	x.change(w.UID, func(p *podRecord) { p.writes.Begin(w) })
}

// Resolve records what is known of a write of ours that has begun.
func (x *Index) Resolve(w inflight.Write, o inflight.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case w.Verb == inflight.Create && o == inflight.Unclear:
		x.create(w, func(s *set, n *node) { s.writes.Resolve(n.id, w, o) })
	case w.Verb == inflight.Create, w.Verb == inflight.Claim:
		s, n := x.sets[w.Set], x.nodes.byName[w.Node]
		if s == nil {
			return
		}
		s.writes.Unblock(w.UID)
		if n != nil {
			s.writes.Resolve(n.id, w, o)
			x.forgetMissingNode(n)
		}
		if w.Verb == inflight.Create && len(s.adoptable) > 0 {
			x.notify(w.Set) // one of these may be on the node, and was not to be adopted before
		}
	default:
		x.change(w.UID, func(p *podRecord) { p.writes.Resolve(w, o) })
		if o == inflight.Seen {
			x.edited(x.pods[w.UID])
		}
	}
}

// create calls begin for the set and the node of a create, which may have gone already.
func (x *Index) create(w inflight.Write, begin func(*set, *node)) {
	s, n := x.sets[w.Set], x.nodes.byName[w.Node]
	if s == nil {
		return
	}
	if n == nil {
		n = x.addMissingNode(w.Node)
	}
	s.ensureState(n)
	begin(s, n)
}

// change has what is under way for a pod changed.
func (x *Index) change(uid types.UID, change func(*podRecord)) {
	p := x.pods[uid]
	if p == nil {
		return
	}
	if p.writes == nil {
		p.writes = &inflight.Pod{}
	}
	if change(p); p.writes.Nothing() {
		p.writes = nil
	}
	x.ownerOf(p).track(p)
}

// edited handles a pod with an edit without a definite answer: if the edit took effect, it no longer counts as refused.
func (x *Index) edited(p *podRecord) {
	if p == nil || p.node == nil {
		return
	}
	if s := x.ownerOf(p); s != nil {
		s.writes.Edited(p.node.id, p.uid, inflight.Content{Labels: p.labels.set, Facts: p.facts})
	}
}

// Refuse records a refusal, and returns when the node is to be tried again (see inflight.Set).
func (x *Index) Refuse(key Key, r inflight.Refusal) (retryAt rollout.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s, n := x.sets[key], x.nodes.byName[r.Node]
	if s == nil || n == nil {
		return 0
	}
	s.ensureState(n)
	return s.writes.Refuse(n.id, r)
}

// Accept records that a write for the node has succeeded; takenBackBy is which one, if it only puts a pod back into use, and 0 otherwise.
func (x *Index) Accept(key Key, nodeName string, takenBackBy rollout.ActionKind) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, n := x.sets[key], x.nodes.byName[nodeName]; s != nil && n != nil {
		s.writes.Accept(n.id, takenBackBy)
	}
}

// Block keeps the node of a write as it is while b lasts. After a create no pod is created there. After a claim the pod is not tried again until b.Until, and a
// create would put a second pod next to it; Resolve ends that when the pod has been adopted or released, or has gone.
func (x *Index) Block(w inflight.Write, b inflight.Block) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s, n := x.sets[w.Set], x.nodes.byName[w.Node]
	b.Pod = w.UID
	switch {
	case s == nil:
	case n != nil:
		if w.Verb == inflight.Create || !n.exists {
			s.ensureState(n)
		}
		s.writes.Block(n.id, b)
	default:
		if p := cmp.Or(s.adoptable[w.UID], s.foreign[w.UID]); p != nil {
			s.writes.BlockUnplaced(b)
			p.blocked = true
		}
	}
}

// InDoubt reports whether there is an edit of the pod without a definite answer.
func (x *Index) InDoubt(uid types.UID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.pods[uid]
	return p != nil && p.writes.EditBy() != 0
}

// Conflicts is how many edits or deletes of the pod were refused because another client had changed it, since the last edit of it that took effect.
func (x *Index) Conflicts(uid types.UID, of inflight.Verb) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.pods[uid]; p != nil {
		return p.writes.Conflicts(of)
	}
	return 0
}

// track keeps the pods of a set at hand of which a write has no definite answer. The set may be nil.
func (s *set) track(p *podRecord) {
	switch {
	case s == nil:
	case p.writes.EditBy() != 0 || p.unclearDelete():
		s.open[p.uid] = p
	default:
		delete(s.open, p.uid)
	}
}

// unclearDelete reports whether a delete of the pod has no definite answer, and the pod does not show that it is being deleted.
func (p *podRecord) unclearDelete() bool { return p.writes.DeleteBy() != 0 && !p.deleting }

// UnsettledPod is a pod with a delete whose answer is not clear.
type UnsettledPod struct {
	Pod
	// Until is the time after which the delete can no longer take effect, by the clock of the process that sent it.
	Until rollout.Time
}

// Doubt is an edit of a pod whose answer is not clear.
type Doubt struct {
	Pod Pod
	// Until is the time after which the edit can no longer take effect.
	Until rollout.Time
}

// unclear are the deletes and the edits without a definite answer, each sorted by pod.
func (s *set) unclear() (deletes []UnsettledPod, edits []Doubt) {
	for _, p := range s.open.byName() {
		if p.unclearDelete() {
			deletes = append(deletes, UnsettledPod{Pod: p.pod(), Until: p.writes.DeleteBy()})
		}
		if until := p.writes.EditBy(); until != 0 {
			edits = append(edits, Doubt{Pod: p.pod(), Until: until})
		}
	}
	return deletes, edits
}
