// SPDX-License-Identifier: Apache-2.0

package policy

import "everynode.dev/everynode/api/everynode/v1alpha1"

// SeveralPolicies is why nothing starts if more than one policy applies to a set.
const SeveralPolicies = "Conflict"

// Remembers reports whether a status has what later decisions need.
func Remembers(st *v1alpha1.SetStatus) bool {
	return st != nil && (st.CommittedRevision != "" || st.TargetRevision != "")
}

// InConflict is the status of a set to which more than one policy applies, for one of them: now is the
// current report about the set, own the data that this policy has about it, and other the data of another
// policy; each is nil if there is none. No policy loses data. A policy without data inherits what holds
// updates, but not the progress, because its waves may differ.
func InConflict(now, own, other *v1alpha1.SetStatus) *v1alpha1.SetStatus {
	var st *v1alpha1.SetStatus
	switch {
	case Remembers(own):
		st = own.DeepCopy()
	case Remembers(other):
		st = other.DeepCopy()
		st.Waves, st.Analyses = nil, nil
	default:
		return now.DeepCopy()
	}
	st.APIVersion, st.Name, st.Enforcement, st.Phase, st.Wave = now.APIVersion, now.Name, now.Enforcement, now.Phase, ""
	st.Blocking, st.Next, st.Alerts = now.DeepCopy().Blocking, nil, nil
	return st
}
