// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// NoEffect says why a decision without a state has no effect yet: something that it names does not exist. It is empty if all of that exists. p is the policy that the decision names, nil if there is none,
// and sets are those that the policy applies to. last returns the status of such a set, nil if it is not known; then it is not known what the decision has, either.
//
// The text is the same until that changes, so that it is written once.
func NoEffect(a *v1alpha1.RolloutApproval, p *Policy, sets []Set, last func(Set) *v1alpha1.SetStatus) (text string, known bool) {
	if p == nil {
		return fmt.Sprintf("The decision has no effect yet. The namespace has no RolloutPolicy %s (spec.policy). Create the policy, or delete this object and create a RolloutApproval that names the policy of the daemon set.", a.Spec.Policy), true
	}
	exists, described := false, false
	for _, set := range sets {
		if set.Name != a.Spec.Set {
			continue
		}
		st := last(set)
		if st == nil || st.TargetRevision == "" { // another controller may keep its pods
			return "", false
		}
		exists, described = true, described || st.TargetRevision == a.Spec.Revision
	}
	switch {
	case !exists:
		text = fmt.Sprintf("The RolloutPolicy %s applies to no daemon set %s (spec.set). Create the daemon set or change spec.targets of the policy, or delete this object and create another RolloutApproval.", p.Name, a.Spec.Set)
	case !described:
		text = fmt.Sprintf("The template of the daemon set %s does not describe a revision %s (spec.revision). "+
			"Delete this object, and create a RolloutApproval with the revision in status.sets[].targetRevision of the policy, while a rollout is active.", a.Spec.Set, a.Spec.Revision)
	case p.lacksWave(a):
		text = fmt.Sprintf("The RolloutPolicy %s has no wave %s (spec.wave). Add the wave, or delete this object and create another RolloutApproval.", p.Name, a.Spec.Wave)
	default:
		return "", true
	}
	return "The decision has no effect yet. " + text, true
}
