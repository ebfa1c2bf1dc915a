// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// TestASurgeThatTheAPIServerRefuses: with a surge, a node keeps its old pod while the new one cannot be created. What says nothing about the new revision counts for the deadline of the wave as little as on a node
// without a pod, and the status names the reason. A pod that a policy denies, or of which the quota counts more, counts.
func TestASurgeThatTheAPIServerRefuses(t *testing.T) {
	equal, more := func(_, _ int) bool { return false }, func(revision, than int) bool { return revision > than }
	for name, c := range map[string]struct {
		refusal rollout.Refusal
		claims  func(revision, than int) bool
		fails   bool
	}{
		"others use a quota up":             {rollout.Refusal{Message: "exceeded quota: q", Denied: true, Quota: true}, equal, false},
		"the quota counts more of new pods": {rollout.Refusal{Message: "exceeded quota: q", Denied: true, Quota: true}, more, true},
		"a webhook cannot be called":        {rollout.Refusal{Message: "failed calling webhook"}, equal, false},
		"a policy denies the new pods":      {rollout.Refusal{Message: "the image is not allowed", Denied: true}, equal, true},
	} {
		w := newWorld(t, hurried)
		w.claims = c.claims
		w.s.Set.MaxSurge, w.s.Set.MaxUnavailable = rollout.Quantity{Value: 1}, rollout.Quantity{}
		w.pass(0)
		w.put("b", 1, true)
		w.put("c", 1, true)
		c.refusal.RetryAt = rollout.EndOfTime
		w.node("a").Refusal = &c.refusal
		for range 20 {
			w.pass(time.Minute)
		}
		if failed := w.last.Failure != nil; failed != c.fails {
			t.Errorf("%s: the failure is %+v", name, w.last.Failure)
		} else if why := w.whyBlocked("PodsNotAvailable"); !failed && !strings.Contains(why, "a ("+c.refusal.Message+")") {
			t.Errorf("%s: the reason is %q", name, why)
		}
	}
}
