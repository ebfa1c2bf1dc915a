// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// soaking are the policies of two sets that soak, one that is analysed, one that has failed, one that waits for an approval, two that roll, and one that waits for a window.
func soaking() []v1alpha1.RolloutPolicy {
	at := func(seconds int64) *metav1.Time {
		moment := metav1.NewTime(time.Unix(seconds, 0))
		return &moment
	}
	return []v1alpha1.RolloutPolicy{{Status: v1alpha1.RolloutPolicyStatus{Sets: []v1alpha1.SetStatus{
		{Phase: v1alpha1.PhaseSoaking, Next: &v1alpha1.NextAction{Action: v1alpha1.ActionEndSoak, At: at(2000)}},
		{Phase: v1alpha1.PhaseSoaking, Next: &v1alpha1.NextAction{Action: v1alpha1.ActionEndSoak, At: at(1000)}},
		{Phase: v1alpha1.PhaseWaitingForApproval, Waves: []v1alpha1.WaveStatus{{WaitingSince: at(500)}, {}}},
		{Phase: v1alpha1.PhaseRolling, Waves: []v1alpha1.WaveStatus{{RollingSince: at(700)}}},
		{Phase: v1alpha1.PhaseRolling, Waves: []v1alpha1.WaveStatus{{}, {RollingSince: at(600)}}},
		{
			Phase: v1alpha1.PhaseSoaking, Wave: "b", Alerts: &v1alpha1.AlertsStatus{Answer: v1alpha1.AnswerUnknown},
			Analyses: []v1alpha1.AnalysisStatus{{Wave: "b", Answer: v1alpha1.AnswerPass}, {Wave: "b", Answer: v1alpha1.AnswerUnknown}, {Wave: "a", Answer: v1alpha1.AnswerFail}},
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
everynode_policy_sets{phase="Complete"} 0
everynode_policy_sets{phase="Failed"} 1
everynode_policy_sets{phase="Rejected"} 0
everynode_policy_sets{phase="Rolling"} 2
everynode_policy_sets{phase="Soaking"} 3
everynode_policy_sets{phase="Stalled"} 0
everynode_policy_sets{phase="Suspended"} 0
everynode_policy_sets{phase="Undoing"} 0
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
