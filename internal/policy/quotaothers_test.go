// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestAQuotaThatOthersUseUp: a quota that another workload uses up has no room for a pod of the committed revision either, so it says nothing about the new one, whose wave waits and names the reason. If the
// quota counts more of the new pods, or it is not known what it counts, the new revision may be at fault. The pod to which an undo returns counts always: otherwise the undo would go on.
func TestAQuotaThatOthersUseUp(t *testing.T) {
	equal, more, less := func(_, _ int) bool { return false }, func(revision, than int) bool { return revision > than }, func(revision, than int) bool { return revision < than }
	for name, c := range map[string]struct {
		claims func(revision, than int) bool
		quota  bool
		fails  bool
	}{
		"the new pods count the same": {equal, true, false},
		"the new pods count more":     {more, true, true},
		"the new pods count less":     {less, true, false},
		"it is not known":             {nil, true, true},
		"it is no quota":              {equal, false, true},
	} {
		for _, of := range []string{"nodeDeadline", "waveDeadline"} {
			rules := hurried
			if of == "nodeDeadline" {
				rules = strings.Replace(judged, "maxFailedNodes: 1", "maxFailedNodes: 0", 1)
			}
			w := newWorld(t, rules)
			w.claims = c.claims
			w.pass(0)
			w.want("abc", v1alpha1.PhaseRolling, "canary")
			a := w.node("a")
			a.Pods, a.Last = nil, 1
			a.Refusal = &rollout.Refusal{Message: "exceeded quota: q", Denied: true, Quota: c.quota, RetryAt: w.s.Now.Add(time.Hour)}
			for range 20 {
				w.pass(time.Minute)
			}
			if failed := w.last.Failure != nil; failed != c.fails {
				t.Errorf("%s, %s: the failure is %+v", name, of, w.last.Failure)
			} else if !failed && (w.last.Phase != v1alpha1.PhaseRolling || !strings.Contains(w.whyBlocked("PodsNotAvailable"), "exceeded quota")) {
				t.Errorf("%s, %s: the phase is %s: %+v", name, of, w.last.Phase, w.last.Blocking)
			}
		}
	}
}

// whyBlocked is the message of a reason in blocking.
func (w *world) whyBlocked(reason string) string {
	for _, b := range w.last.Blocking {
		if b.Reason == reason {
			return b.Message
		}
	}
	return ""
}
