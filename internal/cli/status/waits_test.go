// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/policy"
)

// Where every node says something else, the first ones are told, and the others counted.
func TestWaitsAreCounted(t *testing.T) {
	var all []view.Wait
	for i := range 4 {
		all = append(all, view.Wait{Says: fmt.Sprintf("reason %d", i), Nodes: []string{fmt.Sprintf("node-%d", i)}})
	}
	if lines := waits(all, inspect.Rolling); len(lines) != 4 || !strings.HasPrefix(lines[3], "node-3: ") {
		t.Errorf("lines %q, want all four", lines)
	}
	all = append(all, view.Wait{Says: "a", Nodes: []string{"x", "y"}}, view.Wait{}, view.Wait{Says: "b", Nodes: []string{"z"}})
	lines := waits(all, inspect.Rolling)
	if len(lines) != 5 || !strings.HasPrefix(lines[4], "and 2 reasons more, on 3 nodes: ") {
		t.Errorf("lines %q, want four and the number of the others", lines)
	}
}

// TestHeadlineOfARolloutThatIsHeld: a rollout whose nodes all wait for a user, or for another daemon set, does not roll.
func TestHeadlineOfARolloutThatIsHeld(t *testing.T) {
	for _, c := range []struct{ reason, verdicts, want string }{
		{policy.Paused, "wait-paused", "paused"},
		{policy.HeldByGroup, "wait-group wait-wave up-to-date", "waiting for its concurrency group"},
		{policy.HeldByGroup, "wait-group recreating", "rolling"},
		{"Budget", "wait-group", "rolling"},
	} {
		r := &inspect.Report{Outcome: inspect.Outcome{State: inspect.Rolling}, Policy: &inspect.PolicyReport{SetStatus: v1alpha1.SetStatus{
			Enforcement: v1alpha1.EnforcementFull, Phase: v1alpha1.PhaseRolling, Blocking: []v1alpha1.Blocking{{Reason: c.reason, Message: "It waits."}},
		}}}
		for _, verdict := range strings.Fields(c.verdicts) {
			r.Verdicts = append(r.Verdicts, inspect.VerdictReport{Verdict: verdict, Nodes: 1})
		}
		if got := headline(r); got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.reason, c.verdicts, got, c.want)
		}
	}
}
