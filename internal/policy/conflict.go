// SPDX-License-Identifier: Apache-2.0

package policy

import "everynode.dev/everynode/api/everynode/v1alpha1"

// Remembers reports whether a status has what later decisions need.
func Remembers(st *v1alpha1.SetStatus) bool {
	return st != nil && (st.CommittedRevision != "" || st.TargetRevision != "")
}

// InConflict is the status of a set to which more than one policy applies, for one of them: now is what is reported of the set, own is what this policy
// remembers of it, and other what another one does, each nil for nothing. No policy forgets anything. One that knows nothing takes over what holds updates, but
// no progress: its waves may be others.
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
