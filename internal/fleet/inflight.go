// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/fleet/inflight"
	"everynode.dev/everynode/internal/rollout"
)

// Begin records that a write of ours begins, before it is sent. It notifies no set, and neither does Resolve: the set is the one that writes.
func (x *Index) Begin(w inflight.Write) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.pods[w.UID]; p != nil {
		if p.writes == nil {
			p.writes = &inflight.Pod{}
		}
		p.writes.Begin(w)
		x.ownerOf(p).track(p)
	}
}

// Resolve records what is known of a write of ours that has begun.
func (x *Index) Resolve(w inflight.Write, o inflight.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.pods[w.UID]
	if p == nil {
		return
	}
	if p.writes == nil {
		p.writes = &inflight.Pod{}
	}
	if p.writes.Resolve(w, o); p.writes.Nothing() {
		p.writes = nil
	}
	s := x.ownerOf(p)
	s.track(p)
	if w.Verb == inflight.Edit && (o == inflight.TookEffect || o == inflight.NoEffect) && s != nil && p.node != nil {
		if r := s.refused[p.node.id]; r != nil && r.Pod == w.UID && r.tookEffect(p) { // if the edit took effect, its answer is no refusal any more
			delete(s.refused, p.node.id)
		}
	}
}

// InDoubt is whether there is an edit of the pod without a definite answer.
func (x *Index) InDoubt(uid types.UID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.pods[uid]
	return p != nil && p.writes.EditBy() != 0
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

// unclearDelete is whether a delete of the pod has no definite answer, and the pod does not show that it is being deleted.
func (p *podRecord) unclearDelete() bool { return p.writes.DeleteBy() != 0 && !p.deleting }

// UnsettledPod is a pod with a delete whose answer is not clear.
type UnsettledPod struct {
	Pod
	// Until is when the delete will have taken effect if it ever does, by the clock of who asked for it.
	Until rollout.Time
}

// Doubt is an edit of a pod whose answer is not clear.
type Doubt struct {
	Pod Pod
	// Until is when the edit will have taken effect if it ever does.
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
