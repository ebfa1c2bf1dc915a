// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"cmp"
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
		// stalled is the status of the condition Stalled.
		stalled metav1.ConditionStatus
	}{
		"no set":     {},
		"one set":    {[]v1alpha1.SetStatus{complete("agent")}, v1alpha1.Summary{Sets: "agent", Phases: "Complete", Waves: "-"}, ""},
		"two sets":   {[]v1alpha1.SetStatus{complete("agent"), failed}, v1alpha1.Summary{Sets: "proxy,agent", Phases: "Failed,Complete", Waves: "canary,-"}, ""},
		"five sets":  {[]v1alpha1.SetStatus{complete("a"), complete("b"), complete("c"), complete("d"), failed}, v1alpha1.Summary{Sets: "proxy,a,b + 2 more...", Phases: "Failed,Complete,Complete", Waves: "canary,-,-"}, ""},
		"no set yet": {nil, v1alpha1.Summary{Sets: "-", Phases: "Reconciling", Waves: "-"}, metav1.ConditionUnknown},
		"stalled":    {nil, v1alpha1.Summary{Sets: "-", Phases: "Stalled", Waves: "-"}, metav1.ConditionTrue},
		"one fails":  {[]v1alpha1.SetStatus{failed}, v1alpha1.Summary{Sets: "proxy", Phases: "Failed", Waves: "canary"}, metav1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			conditions := []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: cmp.Or(c.stalled, metav1.ConditionFalse)}}
			if got := policy.Summary(c.sets, conditions); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
