// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
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
