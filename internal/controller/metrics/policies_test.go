// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// soaking are the policies of two sets that soak, one at rest, one in its second wave, one that is analysed, one that is undone, one that has failed, one that waits for an approval, one that was rejected, two that roll, and one that waits for a window.
func soaking() []v1alpha1.RolloutPolicy {
	at := func(seconds int64) *metav1.Time {
		moment := metav1.NewTime(time.Unix(seconds, 0))
		return &moment
	}
	return []v1alpha1.RolloutPolicy{{Status: v1alpha1.RolloutPolicyStatus{Sets: []v1alpha1.SetStatus{
		{Phase: v1alpha1.PhaseSoaking, Next: &v1alpha1.NextAction{Action: v1alpha1.ActionEndSoak, At: at(2000)}},
		{Phase: v1alpha1.PhaseSoaking, Next: &v1alpha1.NextAction{Action: v1alpha1.ActionEndSoak, At: at(1000)}},
		{Phase: v1alpha1.PhaseWaitingForApproval, Waves: []v1alpha1.WaveStatus{{WaitingSince: at(500)}, {}}},
		{Phase: v1alpha1.PhaseRejected, Waves: []v1alpha1.WaveStatus{{WaitingSince: at(400)}}},
		{Phase: v1alpha1.PhaseRolling, Waves: []v1alpha1.WaveStatus{{RollingSince: at(700)}}},
		{Phase: v1alpha1.PhaseRolling, Waves: []v1alpha1.WaveStatus{{}, {RollingSince: at(600)}}},
		{
			Phase: v1alpha1.PhaseSoaking, Wave: "b", Alerts: &v1alpha1.AlertsStatus{Answer: v1alpha1.AnswerUnknown},
			Analyses: []v1alpha1.AnalysisStatus{{Wave: "b", Answer: v1alpha1.AnswerPass}, {Wave: "b", Answer: v1alpha1.AnswerUnknown}, {Wave: "a", Answer: v1alpha1.AnswerFail}},
		},
		{Phase: v1alpha1.PhaseComplete, TargetRevision: "v2", CommittedRevision: "v2", Waves: []v1alpha1.WaveStatus{{Phase: v1alpha1.WavePassed, Nodes: 100, Updated: 100}}},
		{
			Phase: v1alpha1.PhaseRolling, TargetRevision: "v2", CommittedRevision: "v1", Wave: "tenth", Waves: []v1alpha1.WaveStatus{
				{Phase: v1alpha1.WavePassed, Nodes: 3, Updated: 3, Available: 3}, {Phase: v1alpha1.WaveRolling, Nodes: 7, Updated: 5, Available: 4, Failed: 1, RollingSince: at(800)},
				{Phase: v1alpha1.WavePending, Nodes: 90},
			},
		},
		{
			Phase: v1alpha1.PhaseUndoing, TargetRevision: "v2", CommittedRevision: "v1", Failure: &v1alpha1.RolloutFailure{Action: v1alpha1.FailureUndo}, Waves: []v1alpha1.WaveStatus{
				{Phase: v1alpha1.WaveSoaking, Nodes: 20, Updated: 2, Available: 1},
			},
		},
		{Phase: v1alpha1.PhaseFailed, Failure: &v1alpha1.RolloutFailure{}, Wave: "a", Analyses: []v1alpha1.AnalysisStatus{{Wave: "a", Answer: v1alpha1.AnswerFail}}},
		{Phase: v1alpha1.PhaseWaitingForWindow, Waves: []v1alpha1.WaveStatus{{RollingSince: at(100)}}},
	}}}}
}

func TestPolicies(t *testing.T) {
	m := New(false)
	m.Policies = soaking
	all := Declared()
	want := strings.NewReplacer("SETS", all[policySets].Help, "NEXT", all[policyNext].Help, "MISSING", all[policyApproval].Help, "LONGEST", all[policyRolling].Help, "ANALYSES", all[policyAnalyses].Help).Replace(`
# HELP everynode_policy_analyses ANALYSES
# TYPE everynode_policy_analyses gauge
everynode_policy_analyses{answer="Fail"} 0
everynode_policy_analyses{answer="Pass"} 1
everynode_policy_analyses{answer="Unknown"} 2
# HELP everynode_policy_approval_missing_since_seconds MISSING
# TYPE everynode_policy_approval_missing_since_seconds gauge
everynode_policy_approval_missing_since_seconds 500
# HELP everynode_policy_next_action_seconds NEXT
# TYPE everynode_policy_next_action_seconds gauge
everynode_policy_next_action_seconds{action="EndSoak"} 1000
# HELP everynode_policy_sets SETS
# TYPE everynode_policy_sets gauge
everynode_policy_sets{phase="Complete"} 1
everynode_policy_sets{phase="Failed"} 1
everynode_policy_sets{phase="Rejected"} 1
everynode_policy_sets{phase="Rolling"} 3
everynode_policy_sets{phase="Soaking"} 3
everynode_policy_sets{phase="Stalled"} 0
everynode_policy_sets{phase="Suspended"} 0
everynode_policy_sets{phase="Undoing"} 1
everynode_policy_sets{phase="WaitingForApproval"} 1
everynode_policy_sets{phase="WaitingForWindow"} 1
# HELP everynode_policy_wave_rolling_since_seconds LONGEST
# TYPE everynode_policy_wave_rolling_since_seconds gauge
everynode_policy_wave_rolling_since_seconds 600
`)
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), all[policySets].Name, all[policyNext].Name, all[policyApproval].Name, all[policyRolling].Name, all[policyAnalyses].Name); err != nil {
		t.Error(err)
	}
}

// TestWavesOfPolicies: the waves and nodes of rollouts that are active, and not those of a set at rest.
func TestWavesOfPolicies(t *testing.T) {
	m := New(false)
	m.Policies = soaking
	all := Declared()
	want := strings.NewReplacer("WAVES", all[policyWaves].Help, "NODES", all[policyNodes].Help).Replace(`
# HELP everynode_policy_nodes NODES
# TYPE everynode_policy_nodes gauge
everynode_policy_nodes{number="available"} 8
everynode_policy_nodes{number="desired"} 120
everynode_policy_nodes{number="failed"} 1
everynode_policy_nodes{number="released"} 10
everynode_policy_nodes{number="updated"} 10
# HELP everynode_policy_waves WAVES
# TYPE everynode_policy_waves gauge
everynode_policy_waves{phase="Passed"} 1
everynode_policy_waves{phase="Pending"} 1
everynode_policy_waves{phase="Rolling"} 1
everynode_policy_waves{phase="Soaking"} 1
everynode_policy_waves{phase="WaitingForApproval"} 0
`)
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), all[policyWaves].Name, all[policyNodes].Name); err != nil {
		t.Error(err)
	}
}

// TestDecisionsOfPolicies: events of policies are counted by reason, from 0, and no others.
func TestDecisionsOfPolicies(t *testing.T) {
	m := New(false)
	for _, reason := range []string{policy.ReasonRolloutUndone, policy.ReasonRolloutUndone, policy.ReasonWaveStarted, "SuccessfulCreate"} {
		m.Event(reason)
	}
	if n := testutil.CollectAndCount(m, Declared()[policyDecisions].Name); n != len(policy.Reasons()) {
		t.Errorf("%d reasons are counted, want %d", n, len(policy.Reasons()))
	}
	for reason, want := range map[string]float64{policy.ReasonRolloutUndone: 2, policy.ReasonWaveStarted: 1, policy.ReasonRolloutFailed: 0} {
		if got := testutil.ToFloat64(m.decided.WithLabelValues(reason)); got != want {
			t.Errorf("%s: %v, want %v", reason, got, want)
		}
	}
}
