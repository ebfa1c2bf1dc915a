// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
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
		conditions := p.Conditions(nil, sets, nil, metav1.NewTime(time.Unix(1, 0)))
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
		c := meta.FindStatusCondition((&policy.Policy{}).Conditions(nil, sets, nil, metav1.NewTime(time.Unix(1, 0))), v1alpha1.ConditionEnforced)
		if full := enforcement == v1alpha1.EnforcementFull; c == nil || (c.Status == metav1.ConditionTrue) != full || !full && !strings.HasPrefix(c.Message, want) {
			t.Errorf("%s: %+v", enforcement, c)
		}
	}
}

// TestNothingToEnforce: the condition Enforced is Unknown for a policy that applies to no daemon set, or that is not followed because it is invalid.
func TestNothingToEnforce(t *testing.T) {
	const targets = "targets: [{apiVersion: apps/v1, kind: DaemonSet, name: agent}]"
	agent := []v1alpha1.SetStatus{{APIVersion: "apps/v1", Name: "agent", Phase: v1alpha1.PhaseComplete, Enforcement: v1alpha1.EnforcementFull}}
	invalid := targets + "\nwindows: [{schedule: never, duration: 1h}]"
	for _, test := range []struct {
		spec   string
		sets   []v1alpha1.SetStatus
		status metav1.ConditionStatus
		reason string
	}{
		{targets, agent, metav1.ConditionTrue, "Full"},
		{targets, nil, metav1.ConditionUnknown, "NoDaemonSet"},
		{invalid, agent, metav1.ConditionUnknown, "Invalid"},
		{invalid, nil, metav1.ConditionUnknown, "Invalid"},
	} {
		c := meta.FindStatusCondition(read(t, test.spec).Conditions(nil, test.sets, nil, metav1.NewTime(time.Unix(1, 0))), v1alpha1.ConditionEnforced)
		if c == nil || c.Status != test.status || c.Reason != test.reason || strings.Contains(c.Message, "in full") != (test.status == metav1.ConditionTrue) {
			t.Errorf("%s with %d daemon sets: %+v, want %s and %s", test.spec, len(test.sets), c, test.status, test.reason)
		}
	}
}

// TestReadyCountsSets: the message of a policy that is complete names the number of its daemon sets.
func TestReadyCountsSets(t *testing.T) {
	for n, want := range map[int]string{
		1: "All nodes of 1 daemon set have the committed revision.",
		2: "All nodes of 2 daemon sets have the committed revision.",
	} {
		sets := slices.Repeat([]v1alpha1.SetStatus{{APIVersion: "apps/v1", Name: "ds", Phase: v1alpha1.PhaseComplete}}, n)
		c := meta.FindStatusCondition((&policy.Policy{}).Conditions(nil, sets, nil, metav1.NewTime(time.Unix(1, 0))), v1alpha1.ConditionReady)
		if c == nil || c.Message != want {
			t.Errorf("%d: %+v, want %s", n, c, want)
		}
	}
}

// TestWavesThatCannotBe: what can have no node, or no order, is a problem with the path of its field.
func TestWavesThatCannotBe(t *testing.T) {
	for spec, want := range map[string]string{
		"waves: [{name: a, nodes: {percent: 10}}, {name: b, nodes: {percent: 50}}]": "",
		"waves: [{name: a, nodes: {percent: 50}}, {name: b, nodes: {percent: 10}}]": "spec.waves[1].nodes.percent: 10 is not more than 50, the percentage of an earlier wave: " +
			"percentages include earlier waves, so this wave would have no nodes",
		"waves: [{name: a, nodes: {percent: 50}}, {name: b, nodes: {percent: 50, selector: {matchLabels: {pool: b}}}}]": "",
		"windows: [{schedule: 0 0 31 2 *, duration: 1h}]":                                                               `spec.windows[0]: the schedule "0 0 31 2 *" names no day that exists: change its day of month, or its month`,
		"order: {topologyKey: bad key, domains: OneAtATime}":                                                            `spec.order.topologyKey: "bad key" is not the key of a label: `,
		"waves: [{name: a, nodes: {count: 3, spreadBy: [zone, a b]}}]":                                                  `spec.waves[0].nodes.spreadBy[1]: "a b" is not the key of a label: `,
	} {
		p := read(t, spec)
		if got := strings.Join(p.Problems, "; "); want == "" && got != "" || want != "" && !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", spec, got, want)
		}
	}
}

// TestFreezeIsNamed: the phase is the same for a window and a freeze, so the conditions show which one it is.
func TestFreezeIsNamed(t *testing.T) {
	p := read(t, "")
	end := metav1.NewTime(time.Date(2026, 12, 27, 0, 0, 0, 0, time.UTC))
	for want, next := range map[string]v1alpha1.NextAction{
		"agent: WaitingForWindow in wave canary, because a freeze is active until 2026-12-27T00:00:00Z": {Action: v1alpha1.ActionEndFreeze, At: &end},
		"agent: WaitingForWindow in wave canary, because a freeze is active that has no end in sight":   {Action: v1alpha1.ActionEndFreeze},
		"agent: WaitingForWindow in wave canary":                                                        {Action: v1alpha1.ActionOpenWindow, At: &end},
	} {
		sets := []v1alpha1.SetStatus{{APIVersion: "apps/v1", Name: "agent", Phase: v1alpha1.PhaseWaitingForWindow, Wave: "canary", Next: &next}}
		c := meta.FindStatusCondition(p.Conditions(nil, sets, nil, end), v1alpha1.ConditionReady)
		if c == nil || c.Message != want {
			t.Errorf("%+v, want %s", c, want)
		}
	}
}

// TestTargets that are not there, and a policy that selects nothing, make a policy Stalled when that lasts: a tool may apply the policy first, and would take Stalled for a failure.
func TestTargets(t *testing.T) {
	p := read(t, "targets: [{apiVersion: apps/v1, kind: DaemonSet, name: agent}, {apiVersion: apps/v1, kind: DaemonSet, name: gone}]")
	complete := []v1alpha1.SetStatus{{APIVersion: "apps/v1", Name: "agent", Phase: v1alpha1.PhaseComplete}}
	none := read(t, "targets: [{apiVersion: apps/v1, kind: DaemonSet, selector: {matchLabels: {app: none}}}]")
	refused := []v1alpha1.SetStatus{complete[0], {APIVersion: "apps/v1", Name: "gone", Phase: v1alpha1.PhaseStalled, Blocking: []v1alpha1.Blocking{{Reason: "RevisionRefused", Message: "No."}}}}
	for want, c := range map[string]struct {
		p      *policy.Policy
		sets   []v1alpha1.SetStatus
		reason string
	}{
		"There is no DaemonSet gone that the manager serves: create it, start the manager with the dialect that serves it, or change spec.targets.":                        {p, complete, "TargetMissing"},
		"There is no DaemonSet agent and no DaemonSet gone that the manager serves: create it, start the manager with the dialect that serves it, or change spec.targets.": {p, nil, "TargetMissing"},
		"The targets select no daemon set: change spec.targets, or label a daemon set.":                                                                                    {none, nil, "TargetMissing"},
		"gone: No.": {p, refused, "RevisionRefused"},
	} {
		begin := metav1.NewTime(time.Unix(1000, 0))
		conditions := c.p.Conditions(nil, c.sets, nil, begin)
		if is := truth(conditions); is != "Reconciling "+c.reason+": "+want || !policy.StalledFrom(conditions).Equal(begin.Add(rollout.StallAfter)) {
			t.Errorf("at once: %s, want %s; Stalled from %v", is, want, policy.StalledFrom(conditions))
		}
		late := metav1.NewTime(begin.Add(rollout.StallAfter))
		conditions = c.p.Conditions(nil, c.sets, conditions, late)
		if is := truth(conditions); is != "Stalled "+c.reason+": "+want || !policy.StalledFrom(conditions).IsZero() {
			t.Errorf("after ten minutes: %s, want %s; Stalled from %v", is, want, policy.StalledFrom(conditions))
		}
		conditions = c.p.Conditions(nil, c.sets, conditions, metav1.NewTime(late.Add(time.Second)))
		if is := truth(conditions); is != "Stalled "+c.reason+": "+want {
			t.Errorf("a second later: %s, want %s", is, want)
		}
	}
}

// TestARevisionRefusedInTheMiddle: a rollout that has lasted for hours is not Stalled at once when one write is refused.
func TestARevisionRefusedInTheMiddle(t *testing.T) {
	p := read(t, "")
	rolling := []v1alpha1.SetStatus{{APIVersion: "apps/v1", Name: "agent", Phase: v1alpha1.PhaseRolling, Wave: "canary"}}
	refused := []v1alpha1.SetStatus{{APIVersion: "apps/v1", Name: "agent", Phase: v1alpha1.PhaseStalled, Blocking: []v1alpha1.Blocking{{Reason: "RevisionRefused", Message: "No."}}}}
	begin := time.Unix(1000, 0)
	var conditions []metav1.Condition
	for _, c := range []struct {
		at   time.Duration
		sets []v1alpha1.SetStatus
		want string
	}{
		{0, rolling, "Reconciling RollingOut"},
		{3 * time.Hour, refused, "Reconciling RevisionRefused"},
		{3*time.Hour + rollout.StallAfter - time.Second, refused, "Reconciling RevisionRefused"},
		{3*time.Hour + rollout.StallAfter, refused, "Stalled RevisionRefused"},
		{4 * time.Hour, rolling, "Reconciling RollingOut"},
		{5 * time.Hour, refused, "Reconciling RevisionRefused"},
	} {
		conditions = p.Conditions(nil, c.sets, conditions, metav1.NewTime(begin.Add(c.at)))
		if is, _, _ := strings.Cut(truth(conditions), ":"); is != c.want {
			t.Errorf("after %s: %s, want %s", c.at, is, c.want)
		}
	}
}

// truth is which of the three conditions is True, with its reason and message.
func truth(conditions []metav1.Condition) string {
	var is []string
	for _, c := range conditions {
		if c.Status == metav1.ConditionTrue && c.Type != v1alpha1.ConditionEnforced {
			is = append(is, c.Type+" "+c.Reason+": "+c.Message)
		}
	}
	return strings.Join(is, ", ")
}

// TestUnusedTargets: a selector that selects nothing next to another target is reported.
func TestUnusedTargets(t *testing.T) {
	p := read(t, "targets: [{apiVersion: apps/v1, kind: DaemonSet, name: agent}, {apiVersion: apps/v1, kind: DaemonSet, selector: {matchLabels: {app: log}}}]")
	ready := func(selected ...policy.Set) string {
		complete := []v1alpha1.SetStatus{{APIVersion: "apps/v1", Name: "agent", Phase: v1alpha1.PhaseComplete}}
		c := meta.FindStatusCondition(p.Conditions(selected, complete, nil, metav1.NewTime(time.Unix(1, 0))), v1alpha1.ConditionReady)
		if c.Status != metav1.ConditionTrue {
			t.Errorf("%+v", c)
		}
		return c.Message
	}
	const all = "All nodes of 1 daemon set have the committed revision."
	agent := policy.Set{Name: "agent"}
	log := map[string]string{"app": "log"}
	if got := ready(agent, policy.Set{Name: "log", Labels: log, Advanced: true}); got != all+" No daemon set is selected by spec.targets[1].selector." {
		t.Error(got)
	}
	if got := ready(agent, policy.Set{Name: "log", Labels: log}); got != all {
		t.Error(got)
	}
}

// TestConditionsOfManySets: the CRD allows at most 32768 characters in the message of a condition. A longer one has the API server refuse the whole status, each time, so users would see nothing of the policy,
// and another manager would know nothing of its progress.
func TestConditionsOfManySets(t *testing.T) {
	for name, st := range map[string]v1alpha1.SetStatus{
		"next to kube-controller-manager": {Enforcement: v1alpha1.EnforcementOnDelete, Phase: v1alpha1.PhaseComplete},
		"rolling":                         {Enforcement: v1alpha1.EnforcementFull, Phase: v1alpha1.PhaseRolling, Wave: "canary", Waves: []v1alpha1.WaveStatus{{Name: "canary", Nodes: 3}, {Name: "tenth"}}},
		"an empty wave": {Enforcement: v1alpha1.EnforcementFull, Phase: v1alpha1.PhaseComplete, Blocking: []v1alpha1.Blocking{
			{Reason: "EmptyWave", Message: "The next rollout stops before this wave: spec.waves[0].nodes.selector selects no node of the daemon set, so the wave canary cannot begin: label nodes, or change the selector."},
		}},
	} {
		p := read(t, "targets: [{apiVersion: apps/v1, kind: DaemonSet, selector: {matchLabels: {tier: agent}}}]\nwaves: [{name: canary, nodes: {count: 3}}]")
		var sets []v1alpha1.SetStatus
		var selected []policy.Set
		for i := range 500 {
			is := *st.DeepCopy()
			is.APIVersion, is.Name = "apps/v1", fmt.Sprintf("agent-of-a-team-%03d", i)
			sets, selected = append(sets, is), append(selected, policy.Set{Namespace: "default", Name: is.Name, Labels: map[string]string{"tier": "agent"}})
		}
		for _, c := range p.Conditions(selected, sets, nil, metav1.Time{}) {
			if len(c.Message) > 32768 {
				t.Errorf("%s: the message of the condition %s has %d characters", name, c.Type, len(c.Message))
			}
		}
	}
}

// TestMessageAboutManySets: sets with the same text come together, and a message has the first ones of many.
func TestMessageAboutManySets(t *testing.T) {
	p := read(t, "waves: [{name: canary, nodes: {count: 3}}]")
	message := func(sets []v1alpha1.SetStatus) string {
		return meta.FindStatusCondition(p.Conditions(nil, sets, nil, metav1.Time{}), v1alpha1.ConditionReconciling).Message
	}
	var same, different []v1alpha1.SetStatus
	for i := range 12 {
		s := v1alpha1.SetStatus{APIVersion: "apps/v1", Name: fmt.Sprint("s", i), Phase: v1alpha1.PhaseRolling, Wave: "canary"}
		same = append(same, s)
		s.Wave = fmt.Sprint("w", i)
		different = append(different, s)
	}
	same[0].Name, different[0].Name = "agent", "agent"
	for _, test := range []struct {
		sets []v1alpha1.SetStatus
		want string
	}{
		{same[:2], "agent, s1: Rolling in wave canary"},
		{same, "agent, s1, s2, s3, s4, s5, s6, s7, s8, s9 and 2 more: Rolling in wave canary"},
		{different[:2], "agent: Rolling in wave w0; s1: Rolling in wave w1"},
		{different, "agent: Rolling in wave w0; s1: Rolling in wave w1; s2: Rolling in wave w2; s3: Rolling in wave w3; s4: Rolling in wave w4; s5: Rolling in wave w5; " +
			"s6: Rolling in wave w6; s7: Rolling in wave w7; s8: Rolling in wave w8; s9: Rolling in wave w9; more daemon sets in status.sets: 2"},
	} {
		if got := message(test.sets); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	p.Problems = []string{strings.Repeat("x", 40_000)}
	if got := message(same); len(got) > 32768 {
		t.Errorf("%d characters", len(got))
	}
}
