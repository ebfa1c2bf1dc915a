// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	api "everynode.dev/everynode/api/kruise"
)

// lately is for how long after a change in place it is asked whether its node runs it: of one that has not come to it within a minute nobody knows
// more, and then it counts as arrived; and the clocks of managers may be wrong. While one is an hour wrong it is not asked.
const lately = time.Minute - 2*maxSkew

// changedInPlace: a pod is changed in place only while its gate is closed, and comes into use again only when its node runs what it is to run. All that
// a manager has to know for that stands on the pod, and whatever takes effect late is a write of a manager as well; so this is asked of the world.
func (s *sim) changedInPlace(r *request, before, after *corev1.Pod) {
	if imageOf(before) != imageOf(after) {
		s.changed[after.UID] = r.began
		if conditionOf(before, api.InPlaceUpdateReady) != corev1.ConditionFalse {
			s.blame("in-place", "%s %s to %s, which is in use", r.m.name, r.text, imageOf(after))
		}
	}
	opens := !gatesOpen(before) && gatesOpen(after)
	if opens && s.changed[after.UID].After(s.misled) && runs(after) != "" && runs(after) != imageOf(after) && s.w.now.Sub(s.changed[after.UID]) < lately {
		s.blame("in-place", "%s %s, which runs %s and is to run %s", r.m.name, r.text, runs(after), imageOf(after))
	}
}
