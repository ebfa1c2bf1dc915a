// SPDX-License-Identifier: Apache-2.0

package sim

import "everynode.dev/everynode/api/everynode/v1alpha1"

// usedUp is what is ill, in the place of a node, while others use the quota of pods up.
const usedUp = "any node, because others use the quota up"

// quotaRounds is how many rounds are played meanwhile: most are a minute long, and a node has undoDeadline.
const quotaRounds = 60

// lastQuota is one more rollout, of an image that works, while others use the quota of pods up, also if the leader dies then: the image must not fail, for there is no room for a pod of the committed revision
// either. Next to another controller the answers that it gets are not known.
func (s *sim) lastQuota() {
	if s.broken != nil || !s.cfg.undoes() || s.cfg.dialect == alongsideRun || len(s.w.nodes()) == 0 || byHand(s.w.set()) {
		return
	}
	s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) {
		of := s.cfg.specOf()
		spec.Waves, spec.Failure, spec.Analyses = of.Waves, of.Failure, of.Analyses
	})
	s.w.editSet(func(spec map[string]any) { setImage(spec, otherImage(s.w.set())) })
	s.note("a user edits the image, and others use the quota up")
	s.w.closed, s.ill = errQuota(""), usedUp
	if s.trouble = noTrouble; s.w.rv%2 == 0 {
		s.trouble = aDeathInTheUndo
	}
	s.fair(quotaRounds) // it never comes to rest: the creates are tried again
	s.note("the quota is raised")
	s.w.closed, s.ill, s.trouble = nil, "", noTrouble
	s.rest()
}
