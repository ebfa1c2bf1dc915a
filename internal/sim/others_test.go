// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// otherOps are what others do to what a set is made of: another controller comes to look after the set, and only that keeps a manager from it;
// OpenYurt's own manager comes to look after its annotations; somebody takes a pod away from its owner; the namespace is being deleted.
func (s *sim) otherOps(ops []op) []op {
	switch {
	case s.cfg.with("others") && s.other:
		ops = append(ops, op{"the other controller has ended", 3, func() { s.alone(&s.other) }})
	case s.cfg.with("others"):
		ops = append(ops, op{"another controller comes", 1, s.another})
	}
	switch yurt := s.cfg.with("yurt") && s.cfg.dialect == edgeRun; {
	case yurt && s.yurt:
		ops = append(ops, op{"yurt-manager has ended", 3, func() { s.alone(&s.yurt) }})
	case yurt:
		ops = append(ops, op{"yurt-manager comes", 1, func() { s.yurt = true }})
	}
	for _, p := range s.w.pods() {
		if s.cfg.with("orphans") && live(p) && ownedBy(p, s.w.set()) {
			ops = append(ops, op{string(p.UID) + " loses its owner", 1, func() {
				s.w.changePod(p, func(p *corev1.Pod) { p.OwnerReferences = nil })
			}})
		}
	}
	switch {
	case s.cfg.with("endings") && s.w.closed == nil:
		ops = append(ops, op{"the namespace ends", 1, func() { s.w.closed = errEnding() }})
	case s.cfg.with("endings"):
		ops = append(ops, op{"the namespace is there again", 2, func() { s.w.closed = nil }})
	}
	return ops
}

// another controller comes. A pass that is in the middle of its work is caught, but for what has been asked and waits for its turn: that is sent.
func (s *sim) another() {
	s.other = true
	for _, m := range s.managers() {
		m.caught = m.running && !m.others.wait && len(m.asleep) == 0 && m.pace.Window() > 2*(s.cfg.nodes+1)
	}
}

// alone: when another one has ended, all sets are looked at.
func (s *sim) alone(other *bool) {
	*other = false
	for _, m := range s.managers() {
		m.peer.asked = true
		m.asked, m.caught, m.yurt = true, m.caught && s.other, m.yurt && s.yurt
	}
}

// managers are those that have not ended.
func (s *sim) managers() []*manager {
	var list []*manager
	for _, m := range []*manager{s.lead, s.frozen} {
		if m != nil {
			list = append(list, m)
		}
	}
	return list
}

// judgeOther: a pass that begins while another controller is at work writes nothing, and one in the middle of which one comes begins with no further pod.
// Before its decision it may still say again what it has said before, and take in pods or let them go. While OpenYurt's own manager is at work nobody
// else says anything of newer revisions, and no annotation has old pods deleted (judgeStart).
func (s *sim) judgeOther(r *request) {
	m, a := r.m, r.action
	repeated := a.verb == "delete" && m.known.doomed[types.UID(a.uid)]
	begins := slices.Contains([]string{"create", "delete", "patch", "announce"}, a.verb) && !m.begun[a.pod] && !repeated
	switch {
	case m.barred:
		s.blame("other", "%s %s, although another controller was at work when it began", m.name, r.text)
	case m.caught && begins:
		s.blame("other", "%s %s, although another controller has come", m.name, r.text)
	case m.yurt && a.verb == "announce":
		s.blame("other", "%s %s, although OpenYurt's own manager was at work when it began", m.name, r.text)
	}
	m.begun[a.pod] = true
}

// errEnding is how the API server refuses creates in a namespace that is being deleted.
func errEnding() error {
	err := apierrors.NewForbidden(podResource("pods"), "", errors.New("namespace "+namespace+" is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

// checkOwners: nothing that the set selects is left to itself, and nothing else is its own.
func (s *sim) checkOwners() {
	for _, p := range s.w.pods() {
		switch {
		case !live(p):
		case selected(p) && metav1.GetControllerOfNoCopy(p) == nil:
			s.blame("liveness", "%s is nobody's", p.UID)
		case !selected(p) && ownedBy(p, s.w.set()):
			s.blame("liveness", "%s is the set's, which does not select it", p.UID)
		}
	}
}
