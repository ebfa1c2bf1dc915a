// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestConditionOfEachPhase: of Ready, Reconciling and Stalled exactly one is True, and a revision that was rejected or has failed is Stalled: only a change of
// the template, or of the approval, continues.
func TestConditionOfEachPhase(t *testing.T) {
	for phase, want := range map[v1alpha1.Phase]string{
		v1alpha1.PhaseComplete: "Ready", v1alpha1.PhaseRolling: "Reconciling", v1alpha1.PhaseSoaking: "Reconciling", v1alpha1.PhaseWaitingForApproval: "Reconciling",
		v1alpha1.PhaseWaitingForWindow: "Reconciling", v1alpha1.PhaseUndoing: "Reconciling", v1alpha1.PhaseSuspended: "Reconciling",
		v1alpha1.PhaseFailed: "Stalled", v1alpha1.PhaseRejected: "Stalled", v1alpha1.PhaseStalled: "Stalled",
	} {
		sets := []v1alpha1.SetStatus{{APIVersion: "apps/v1", Name: "ds", Phase: phase, Blocking: []v1alpha1.Blocking{{Reason: "Why", Message: "The reason."}}}}
		p := &policy.Policy{Generation: 3}
		conditions := policy.Conditions(p, sets, nil, metav1.NewTime(time.Unix(1, 0)))
		for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
			c := meta.FindStatusCondition(conditions, kind)
			if c == nil || (c.Status == metav1.ConditionTrue) != (kind == want) || c.ObservedGeneration != 3 {
				t.Errorf("%s: %s is %+v, want %s", phase, kind, c, want)
			}
		}
	}
}

// TestWhatIsNotHeld is in the condition Enforced, for each set that is concerned.
func TestWhatIsNotHeld(t *testing.T) {
	for enforcement, want := range map[v1alpha1.Enforcement]string{
		v1alpha1.EnforcementFull:          "",
		v1alpha1.EnforcementOnDelete:      "ds: another controller creates the pods, so a pod that joins or is replaced gets the newest revision, joiningNodes has no effect",
		v1alpha1.EnforcementAnnouncements: "ds: the owner of each node decides when its pod is updated",
		v1alpha1.EnforcementNone:          "ds: nothing is controlled",
	} {
		sets := []v1alpha1.SetStatus{{APIVersion: "apps/v1", Name: "ds", Phase: v1alpha1.PhaseComplete, Enforcement: enforcement}}
		c := meta.FindStatusCondition(policy.Conditions(&policy.Policy{}, sets, nil, metav1.NewTime(time.Unix(1, 0))), v1alpha1.ConditionEnforced)
		if full := enforcement == v1alpha1.EnforcementFull; c == nil || (c.Status == metav1.ConditionTrue) != full || !full && !strings.HasPrefix(c.Message, want) {
			t.Errorf("%s: %+v", enforcement, c)
		}
	}
}
