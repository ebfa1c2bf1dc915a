// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// trouble is what is to happen in the middle of the next soak.
type trouble int

const (
	noTrouble trouble = iota
	// aDeath is that the leader dies, and in some runs pods fail while no manager looks.
	aDeath
	// aLook is that time passes and the leader looks, aFailure that the pods fail then.
	aLook
	aFailure
	// aRejection is that a user rejects the revision, and some time later takes that back.
	aRejection
	aWait
	aRegret
	// aDeathInTheUndo is that the leader dies when nodes return to the committed revision, or get another one while a node is ill.
	aDeathInTheUndo
	// aLossInTheUndo is that a node goes down when nodes return to the committed revision.
	aLossInTheUndo
)

// soakOp is the trouble in the middle of a soak; nil if there is none.
func (s *sim) soakOp(p *v1alpha1.RolloutPolicy) *op {
	if s.trouble == aDeathInTheUndo && len(p.Status.Sets) > 0 && (p.Status.Sets[0].Phase == v1alpha1.PhaseUndoing || s.ill != "" && p.Status.Sets[0].Phase == v1alpha1.PhaseRolling) {
		return &op{s.lead.name + " dies in the middle of it", 1, func() {
			s.trouble = noTrouble
			s.lead.die()
			s.lead = nil
		}}
	}
	if s.trouble == aLossInTheUndo && len(p.Status.Sets) > 0 && p.Status.Sets[0].Phase == v1alpha1.PhaseUndoing {
		if n := s.w.nodes()[s.w.rv%len(s.w.nodes())]; nodeReady(n) {
			return &op{n.Name + " goes down in the middle of it", 1, func() {
				s.trouble = noTrouble
				s.goesDown(n)
			}}
		}
	}
	if s.trouble == aWait {
		return &op{"60s pass", 1, func() {
			s.trouble = aRegret
			s.pass(time.Minute)
			s.lead.asked = true
		}}
	}
	if s.trouble == aRegret {
		return &op{"a user takes the rejection back", 1, func() {
			s.trouble = noTrouble
			s.w.remove(ofApprovals, words("decision-%d", s.w.born["approvals"]))
		}}
	}
	if len(p.Status.Sets) == 0 || p.Status.Sets[0].Phase != v1alpha1.PhaseSoaking {
		return nil
	}
	next := func(to trouble, text string, do func()) *op {
		return &op{s.lead.name + text, 1, func() { s.trouble = to; do() }}
	}
	switch s.trouble {
	case aDeath:
		return next(noTrouble, " dies in the middle of a soak", func() {
			s.lead.die()
			s.lead = nil
			s.pass(3 * time.Second)
			if s.w.rv%2 == 0 {
				s.failPods(true)
			}
		})
	case aLook:
		return next(aFailure, " looks in the middle of a soak", func() {
			s.pass(3 * time.Second)
			s.lead.asked = true
		})
	case aFailure:
		return next(noTrouble, " soaks, and the pods fail", func() { s.failPods(false) })
	case aRejection:
		return next(aWait, " soaks, and a user rejects the revision", func() { s.decide(v1alpha1.Reject, "", p.Status.Sets[0].TargetRevision) })
	default:
		return nil
	}
}

// failPods has all pods fail, and get ready again at once, or later.
func (s *sim) failPods(again bool) {
	for _, p := range s.w.pods() {
		if ready, _ := readyOf(p); ready && ownedBy(p, s.w.set()) {
			s.w.changePod(p, func(p *corev1.Pod) { s.setReady(p, false) })
			if again {
				s.w.changePod(s.w.podOf(p.UID), func(p *corev1.Pod) { s.setReady(p, true) })
			}
		}
	}
}
