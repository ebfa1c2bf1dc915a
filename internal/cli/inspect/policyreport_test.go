// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// What a manager reports counts, unless it is about another revision. If it says that it controls nothing of the set, it is about none.
func TestWhatAManagerHasReported(t *testing.T) {
	stored := func(enforcement v1alpha1.Enforcement, revision string) *v1alpha1.SetStatus {
		return &v1alpha1.SetStatus{Enforcement: enforcement, Phase: v1alpha1.PhaseStalled, TargetRevision: revision}
	}
	now := &v1alpha1.SetStatus{Enforcement: v1alpha1.EnforcementFull, Phase: v1alpha1.PhaseComplete, TargetRevision: "agent-2"}
	for name, test := range map[string]struct {
		stored, now *v1alpha1.SetStatus
		reported    bool
	}{
		"this revision":       {stored(v1alpha1.EnforcementFull, "agent-2"), now, true},
		"another revision":    {stored(v1alpha1.EnforcementFull, "agent-1"), now, false},
		"it controls nothing": {stored(v1alpha1.EnforcementNone, ""), now, true},
		"nothing":             {nil, now, false},
		"nothing is decided":  {stored(v1alpha1.EnforcementFull, "agent-1"), nil, true},
	} {
		g := inspect.Governance{Policies: []*policies.Policy{{Typed: &v1alpha1.RolloutPolicy{}}}, Stored: test.stored, Now: test.now}
		want := v1alpha1.PhaseComplete
		if test.reported {
			want = v1alpha1.PhaseStalled
		}
		if r := g.Report(); r.Reported != test.reported || r.Phase != want {
			t.Errorf("%s: reported %t, phase %s, want %t, %s", name, r.Reported, r.Phase, test.reported, want)
		}
	}
}

// In a conflict each policy keeps the target that it knew before: what the manager reports counts, also if the template has changed since.
func TestWhatAManagerHasReportedOfAConflict(t *testing.T) {
	stored := &v1alpha1.SetStatus{
		Enforcement: v1alpha1.EnforcementFull, Phase: v1alpha1.PhaseStalled, TargetRevision: "agent-1", Blocking: []v1alpha1.Blocking{{Reason: policy.SeveralPolicies}},
	}
	g := inspect.Governance{
		Policies: []*policies.Policy{{Typed: &v1alpha1.RolloutPolicy{}}, {Typed: &v1alpha1.RolloutPolicy{}}}, Stored: stored,
		Now: &v1alpha1.SetStatus{Phase: v1alpha1.PhaseStalled, TargetRevision: "agent-2"},
	}
	if r := g.Report(); !r.Reported {
		t.Error("no manager has reported the conflict")
	}
	g.Policies = g.Policies[:1] // the other one is gone by now
	if r := g.Report(); r.Reported {
		t.Error("the conflict is still reported")
	}
}

// The implicit wave for the remaining nodes is reported if there are such nodes, or if it is active: otherwise each view would show a wave of 0 nodes.
func TestTheWaveForTheRemainingNodes(t *testing.T) {
	for name, test := range map[string]struct {
		active          string
		remaining       int32
		waves, position int
	}{
		"of no node":             {"canary", 0, 1, 1},
		"of one node":            {"canary", 1, 2, 1},
		"of no node, but active": {policy.Remaining, 0, 2, 2},
		"of one node, active":    {policy.Remaining, 1, 2, 2},
		"of no node, at rest":    {"", 0, 1, 0},
	} {
		stored := &v1alpha1.SetStatus{Wave: test.active, Waves: []v1alpha1.WaveStatus{{Name: "canary", Nodes: 3}, {Name: policy.Remaining, Nodes: test.remaining}}}
		g := inspect.Governance{Policies: []*policies.Policy{{Typed: &v1alpha1.RolloutPolicy{}}}, Stored: stored}
		r := g.Report()
		if len(r.Waves) != test.waves || r.Total != test.waves || r.Position != test.position {
			t.Errorf("%s: %d waves, wave %d of %d, want wave %d of %d", name, len(r.Waves), r.Position, r.Total, test.position, test.waves)
		}
		if len(stored.Waves) != 2 {
			t.Errorf("%s: the status itself has %d waves", name, len(stored.Waves))
		}
	}
	own := inspect.Governance{Policies: []*policies.Policy{{Typed: &v1alpha1.RolloutPolicy{}}}, Stored: &v1alpha1.SetStatus{Waves: []v1alpha1.WaveStatus{{Name: "empty"}}}}
	if r := own.Report(); len(r.Waves) != 1 {
		t.Error("a wave of the specification that has no nodes is not reported")
	}
}

// TestNextActionInAConflict: to resume the suspended policy starts nothing.
func TestNextActionInAConflict(t *testing.T) {
	r := &inspect.PolicyReport{Name: "a", Others: []string{"b"}, Suspended: true}
	if got := r.NextAction(time.Unix(0, 0), "ads/agent"); got != "nothing starts before one policy remains: change spec.targets of rolloutpolicy/a or rolloutpolicy/b" {
		t.Error(got)
	}
}

// TestNextActionWithoutAnEnd: a freeze without an end shows no year 2262.
func TestNextActionWithoutAnEnd(t *testing.T) {
	r := &inspect.PolicyReport{Name: "agents", SetStatus: v1alpha1.SetStatus{Next: &v1alpha1.NextAction{Action: v1alpha1.ActionEndFreeze}}}
	if got := r.NextAction(time.Unix(0, 0), "ads/agent"); got != "nothing starts before the freeze ends, which has no end in sight: change spec.freezes of rolloutpolicy/agents" {
		t.Error(got)
	}
}

// TestNextActionThatIsOverdue: what a manager has promised does not happen while none leads.
func TestNextActionThatIsOverdue(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	r := &inspect.PolicyReport{Name: "agents", SetStatus: v1alpha1.SetStatus{Next: &v1alpha1.NextAction{Action: v1alpha1.ActionEndSoak, At: &at}}}
	for late, want := range map[time.Duration]string{
		-100 * time.Millisecond: "the soak ends now", // and not in 0.0s
		-time.Minute:            "the soak ends in 1m00s (2026-03-01T12:00:00Z)",
		0:                       "the soak ends now",
		15 * time.Second:        "the soak ends now",
		5 * time.Minute:         "the soak ends: overdue since 2026-03-01T12:00:00Z (5m00s), because no manager of Everynode has reported since then; see kubectl everynode doctor",
	} {
		if got := r.NextAction(at.Add(late), "ads/agent"); got != want {
			t.Errorf("%s late: %q, want %q", late, got, want)
		}
	}
}

// TestAMessageThatTheStatusHas is not shown again, whether it names the set or not, and with the beginning of the sentence or without.
func TestAMessageThatTheStatusHas(t *testing.T) {
	const says = "The policy cannot be followed: spec.windows[0]: expected exactly 5 fields."
	r := &inspect.PolicyReport{SetStatus: v1alpha1.SetStatus{Blocking: []v1alpha1.Blocking{{Reason: policy.Invalid, Message: says}}}}
	for message, want := range map[string]bool{says: true, "agent: " + says: true, "spec.windows[0]: expected exactly 5 fields": true, "Another thing is wrong.": false, "": false} {
		if got := r.Says(message); got != want {
			t.Errorf("%q: %t, want %t", message, got, want)
		}
	}
}

// TestCauseAfterAnUndoHasStopped: a node with the failed revision does not wait because its pod is old.
func TestCauseAfterAnUndoHasStopped(t *testing.T) {
	for reason, want := range map[string]string{"UndoFailed": "the undo has stopped, so the node does not return to the committed revision now", "Failed": ""} {
		m := inspect.Evaluation{Governance: inspect.Governance{
			Policies: []*policies.Policy{{Typed: &v1alpha1.RolloutPolicy{}}}, Stored: &v1alpha1.SetStatus{Phase: v1alpha1.PhaseFailed, Blocking: []v1alpha1.Blocking{{Reason: reason, Message: "It stops."}}},
		}}
		if got := m.Cause(rollout.WaitFailed); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}
