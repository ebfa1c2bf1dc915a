// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/policy"
)

// The remaining time includes the soaks that are still to come, and names what it does not include. While the policy holds the rollout, there is none.
func TestTheRemainingTimeUnderAPolicy(t *testing.T) {
	rules := func(windows ...policy.Window) *policy.Policy {
		return &policy.Policy{Windows: windows, Waves: []policy.Wave{
			{Name: "canary", Soak: 20 * time.Second, Approval: true}, {Name: "empty", Soak: time.Hour}, {Name: "half", Soak: 40 * time.Second, Analysis: []int{0}}, {Name: policy.Remaining},
		}}
	}
	waves := func(canary v1alpha1.WavePhase, half v1alpha1.WavePhase) []v1alpha1.WaveStatus {
		return []v1alpha1.WaveStatus{
			{Name: "canary", Nodes: 3, Phase: canary}, {Name: "empty", Phase: v1alpha1.WavePending}, {Name: "half", Nodes: 4, Phase: half}, {Name: policy.Remaining, Nodes: 5, Phase: v1alpha1.WavePending},
		}
	}
	last := waves(v1alpha1.WavePassed, v1alpha1.WavePassed)
	last[3].Phase = v1alpha1.WaveRolling
	held := view.Pace{UpTo: view.UpTo{Policy: true}}
	known := func(left time.Duration, note string) view.Pace {
		return view.Pace{Known: true, PerSecond: 0.5, Left: left, Note: note}
	}
	for name, test := range map[string]struct {
		phase v1alpha1.Phase
		rules *policy.Policy
		waves []v1alpha1.WaveStatus
		want  view.Pace
		then  string
	}{
		"canary":        {v1alpha1.PhaseRolling, rules(), waves(v1alpha1.WaveRolling, v1alpha1.WavePending), known(90*time.Second, "soaks of 1m00s included, without analyses and approvals"), "wave canary soaks for 20s"},
		"half, windows": {v1alpha1.PhaseRolling, rules(policy.Window{}), waves(v1alpha1.WavePassed, v1alpha1.WaveRolling), known(70*time.Second, "soaks of 40s included, without analyses and closed windows"), "wave half soaks for 40s"},
		"the last wave": {v1alpha1.PhaseRolling, rules(), last, known(30*time.Second, ""), ""},
		"an undo":       {v1alpha1.PhaseUndoing, rules(), waves(v1alpha1.WaveRolling, v1alpha1.WavePending), known(30*time.Second, ""), ""},
		"a window":      {v1alpha1.PhaseWaitingForWindow, rules(), waves(v1alpha1.WaveRolling, v1alpha1.WavePending), held, ""},
		"a soak":        {v1alpha1.PhaseSoaking, rules(), waves(v1alpha1.WaveSoaking, v1alpha1.WavePending), held, ""},
	} {
		r := &PolicyReport{rules: test.rules, SetStatus: v1alpha1.SetStatus{Phase: test.phase, Enforcement: v1alpha1.EnforcementFull, Waves: test.waves}}
		for i := range test.waves {
			if test.waves[i].Phase == v1alpha1.WaveRolling {
				r.Wave = test.waves[i].Name
			}
		}
		if got := r.Pace(known(30*time.Second, "")); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if got := r.afterWave(); got != test.then && test.phase == v1alpha1.PhaseRolling {
			t.Errorf("%s: then %q, want %q", name, got, test.then)
		}
	}
	if none, pace := (*PolicyReport)(nil), known(time.Second, ""); none.Pace(pace) != pace {
		t.Error("a set without a policy has another pace")
	}
}
