// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestWhatIsWorthAWrite: how long a wave has been lacking pods or has soaked, and how long an analysis has had no answer, grows with each decision, so it alone is not worth a write each second.
func TestWhatIsWorthAWrite(t *testing.T) {
	for name, status := range map[string]func(d *metav1.Duration) v1alpha1.SetStatus{
		"rolled": func(d *metav1.Duration) v1alpha1.SetStatus {
			return v1alpha1.SetStatus{Waves: []v1alpha1.WaveStatus{{Phase: v1alpha1.WaveRolling, Rolled: d}}}
		},
		"soaked": func(d *metav1.Duration) v1alpha1.SetStatus {
			return v1alpha1.SetStatus{Waves: []v1alpha1.WaveStatus{{Phase: v1alpha1.WaveSoaking, Soaked: d}}}
		},
		"unknown": func(d *metav1.Duration) v1alpha1.SetStatus {
			return v1alpha1.SetStatus{Analyses: []v1alpha1.AnalysisStatus{{UnknownFor: d}}}
		},
	} {
		after := func(d time.Duration) *v1alpha1.RolloutPolicyStatus {
			return &v1alpha1.RolloutPolicyStatus{Sets: []v1alpha1.SetStatus{status(&metav1.Duration{Duration: d})}}
		}
		none := &v1alpha1.RolloutPolicyStatus{Sets: []v1alpha1.SetStatus{status(nil)}}
		if !same(after(time.Minute), after(time.Minute+time.Second)) {
			t.Errorf("%s: a second more is written", name)
		}
		if same(after(time.Minute), after(2*time.Minute)) || same(none, after(time.Second)) || same(after(time.Minute), none) {
			t.Errorf("%s: a minute more, the first one or its end is not written", name)
		}
	}
}

// TestPolicyBecomesStalled: no event announces that a target has been missing for too long.
func TestPolicyBecomesStalled(t *testing.T) {
	missing := object(v1alpha1.KindPolicy, "p", map[string]any{"targets": []any{map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "gone"}}})
	began := time.Now().Add(2*time.Second - rollout.StallAfter).UTC().Format(time.RFC3339)
	missing.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Stalled", "status": "Unknown", "reason": "TargetMissing", "message": "", "lastTransitionTime": began}}}
	b := newBench(t, nil, missing)
	is := func(kind string) bool {
		conditions, _, _ := unstructured.NestedSlice(b.stored(v1alpha1.ResourcePolicies, "p"), "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			return condition["type"] == kind && condition["status"] == "True" && condition["message"] != ""
		})
	}
	b.until("it is Reconciling", func() bool { return is(v1alpha1.ConditionReconciling) || is(v1alpha1.ConditionStalled) })
	b.until("it is Stalled", func() bool { return is(v1alpha1.ConditionStalled) && !is(v1alpha1.ConditionReconciling) })
}
