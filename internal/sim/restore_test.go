// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// backup is the store of the API server at an earlier moment, and what the managers had taken away then.
type backup struct {
	rv      int
	state   [kinds]map[string]metav1.Object
	down    map[string]bool
	doubled map[string]types.UID
	lease   *coordinationv1.Lease
	work    work
}

// restoreOps: an administrator makes a backup of the store, and later restores it. A leader sees no event any more, as its watches have ended, until it
// notices that versions have gone back; then it begins again.
func (s *sim) restoreOps(ops []op) []op {
	ops = append(ops, op{"a backup is made", 1, s.backUp})
	if s.backup != nil && s.frozen == nil {
		ops = append(ops, op{"the backup is restored", 2, s.restore})
	}
	return ops
}

func (s *sim) backUp() {
	s.backup = &backup{rv: s.w.rv, down: maps.Clone(s.down), doubled: maps.Clone(s.doubled), lease: s.w.lease, work: s.work.clone()}
	for k := range kinds {
		s.backup.state[k] = maps.Clone(s.w.state[k])
	}
}

// restore brings the objects of the backup back. What is not in it is gone, and no request of before takes effect.
func (s *sim) restore() {
	w, b := s.w, s.backup
	s.stragglers, s.down, s.doubled, s.work = nil, maps.Clone(b.down), maps.Clone(b.doubled), b.work.clone()
	var again []*corev1.Pod
	for k := range kinds {
		for _, name := range sorted(w.state[k]) {
			if b.state[k][name] == nil {
				w.logs[k] = append(w.logs[k], event{b.rv, w.state[k][name], true})
			}
		}
		for _, name := range sorted(b.state[k]) {
			object, was := b.state[k][name], w.state[k][name]
			if object == was {
				continue
			}
			w.logs[k] = append(w.logs[k], event{b.rv, object, false})
			if p, is := object.(*corev1.Pod); is && p.Spec.NodeName != "" && (was == nil || was.GetUID() != p.UID) {
				again = append(again, p)
			}
		}
		w.state[k], w.since[k] = maps.Clone(b.state[k]), len(w.logs[k])
	}
	w.rv = b.rv
	for _, p := range again { // its node has ended it, and begins again
		w.changePod(p, func(p *corev1.Pod) { s.setReady(p, false); s.renew(p) })
	}
	w.lease = b.lease
	s.keeper.close()
	s.keeper = s.newKeeper() // it begins again, too
	if s.lead != nil {
		s.lead.cutOff()
	}
	if s.cfg.with("slowness") { // it takes longer than a leader believes that the lease of slow writes is as it was
		s.pass(10 * time.Second)
	}
}

// cutOff ends the requests of a manager without an answer; it sees nothing of the store any more.
func (m *manager) cutOff() {
	m.cut = true
	for _, r := range m.waiting() {
		m.s.fail(r, errTimeout())
	}
}

// unheardOf is whether a manager that has not noticed that the store was restored creates a pod of a revision that is not there any more. No run has such
// pods: the generation of their template, if it stood for another one before, would be all that is known of them, and the native controller errs as well.
func (s *sim) unheardOf(r *request) bool {
	name := setName
	if r.peer {
		name = peerName
	}
	return r.m.cut && r.action.verb == "create" && s.w.revision(name+"-"+r.action.hash) == nil
}

// noticeOp is that a leader notices what cutOff has done to it, and makes room for one that reads everything again.
func (s *sim) noticeOp() op {
	m := s.lead
	return op{m.name + " notices that the store was restored", 12, func() { m.die(); s.lead = nil }}
}

// excusing is what f does while nothing is blamed on a manager that does not know yet that the store was restored: what it does with what it knew counts for
// its successor all the same.
func (s *sim) excusing(m *manager, f func()) {
	before := s.excused
	s.excused = before || m.cut
	f()
	s.excused = before
}
