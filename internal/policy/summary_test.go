// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestSummary: no set with an active rollout is hidden behind one that is complete.
func TestSummary(t *testing.T) {
	complete := func(name string) v1alpha1.SetStatus {
		return v1alpha1.SetStatus{Name: name, Phase: v1alpha1.PhaseComplete}
	}
	failed := v1alpha1.SetStatus{Name: "proxy", Phase: v1alpha1.PhaseFailed, Wave: "canary"}
	for name, c := range map[string]struct {
		sets []v1alpha1.SetStatus
		want v1alpha1.Summary
		// stalled reports whether the condition Stalled is True.
		stalled bool
	}{
		"no set":    {},
		"one set":   {[]v1alpha1.SetStatus{complete("agent")}, v1alpha1.Summary{Sets: "agent", Phases: "Complete", Waves: "-"}, false},
		"two sets":  {[]v1alpha1.SetStatus{complete("agent"), failed}, v1alpha1.Summary{Sets: "proxy,agent", Phases: "Failed,Complete", Waves: "canary,-"}, false},
		"five sets": {[]v1alpha1.SetStatus{complete("a"), complete("b"), complete("c"), complete("d"), failed}, v1alpha1.Summary{Sets: "proxy,a,b + 2 more...", Phases: "Failed,Complete,Complete", Waves: "canary,-,-"}, false},
		"stalled":   {nil, v1alpha1.Summary{Sets: "-", Phases: "Stalled", Waves: "-"}, true},
		"one fails": {[]v1alpha1.SetStatus{failed}, v1alpha1.Summary{Sets: "proxy", Phases: "Failed", Waves: "canary"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			conditions := []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionFalse}}
			if c.stalled {
				conditions[0].Status = metav1.ConditionTrue
			}
			if got := policy.Summary(c.sets, conditions); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
