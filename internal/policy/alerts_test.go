// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

const alerting = `
waves: [{name: canary, nodes: {count: 3}}]
blockOnAlerts: {provider: main, match: 'severity="critical"', firingOnly: true}
failure: {waveDeadline: 1h}
`

// While alerts are firing, or it is not known whether they are, no update starts.
func TestAlertsHoldUpdates(t *testing.T) {
	w := newWorld(t, alerting)
	w.pass(0)
	w.want("", v1alpha1.PhaseRolling, "canary")
	if got := w.verdicts(); !strings.HasPrefix(got, "a:wait-alerts b:wait-alerts c:wait-alerts d:wait-wave") {
		t.Fatalf("verdicts %s", got)
	}
	if q := w.question(""); q.Query != `severity="critical"` || !q.FiringOnly || q.Provider != "main" {
		t.Errorf("the question is %+v", q)
	}
	w.answer("", failing)
	w.pass(2 * time.Hour) // the deadline of the wave does not count while alerts hold it
	w.pass(2 * time.Hour)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.answer("", unknown)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.answer("", failing, passes)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.answer("", passes, failing)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "remaining")
	w.answer("", passes)
	w.pass(time.Second)
	w.restored = true // another leader asks again
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "remaining")
	w.answer("", passes)
	w.pass(time.Second)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
	for _, reason := range []string{policy.ReasonAlertsFiring, policy.ReasonAlertsEnded} {
		if !slices.Contains(w.events, reason) {
			t.Errorf("no event %s in %v", reason, w.events)
		}
	}
}

// An answer that no alert is firing counts for 15 s and the longest timeout. Then it is not known whether alerts are firing.
func TestAnAnswerAboutAlertsBecomesOld(t *testing.T) {
	w := newWorld(t, alerting)
	w.pass(0)
	w.answer("", failing)
	w.pass(time.Second)
	w.pass(time.Hour) // alerts that are firing hold until there is another answer
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.policies = []*policy.Policy{read(t, alerting+"suspend: true\n")}
	w.answer("", passes)
	w.pass(time.Second)
	w.pass(74 * time.Second)
	if w.last.Alerts.Answer != passes {
		t.Errorf("after 74 s: %+v", w.last.Alerts)
	}
	w.pass(time.Second)
	w.policies = []*policy.Policy{read(t, alerting)}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
	want := "No update starts because of alerts. There has been no answer for 1m15s, so it is not known whether alerts are firing."
	if got := w.last.Blocking[0].Message; w.last.Alerts.Answer != unknown || got != want {
		t.Errorf("after 75 s: %+v, %s", w.last.Alerts, got)
	}
	w.answer("", passes)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
}

// Matchers of the state of alerts that exclude all alerts that count are a problem, because no answer would ever hold an update.
func TestMatchersThatSelectNoAlert(t *testing.T) {
	for fields, want := range map[string]string{
		`match: 'alertstate="pending"', firingOnly: true`:                     "exclude firing:",
		`match: 'severity="page", alertstate!="firing"', firingOnly: true`:    "exclude firing:",
		`match: 'alertstate=~"pend.*"', firingOnly: true`:                     "exclude firing:",
		`match: 'alertstate="inactive"'`:                                      "exclude firing and pending:",
		`match: 'alertstate!~"firing|pending"'`:                               "exclude firing and pending:",
		`match: 'alertstate="pending"'`:                                       "",
		`match: 'alertstate="firing"', firingOnly: true`:                      "",
		`match: 'alertstate=~"firing|pending"', firingOnly: true`:             "",
		`match: 'summary="alertstate=\"pending\""', firingOnly: true`:         "",
		`match: 'old_alertstate="pending",alertstate=~"("', firingOnly: true`: "",
	} {
		p := read(t, "waves: [{name: canary, nodes: {count: 3}}]\nblockOnAlerts: {provider: main, "+fields+"}")
		if got := strings.Join(p.Problems, "; "); (got == "") != (want == "") || want != "" && (!strings.HasPrefix(got, "spec.blockOnAlerts.match: it selects no alert, ") || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", fields, got, want)
		}
	}
}

// An answer about other alerts, or of another rollout, does not count.
func TestAnswersAboutOtherAlertsDoNotCount(t *testing.T) {
	w := newWorld(t, alerting)
	w.pass(0)
	old := w.question("")
	w.policies = []*policy.Policy{read(t, strings.ReplaceAll(alerting, "critical", "page"))}
	w.answerTo(old, passes)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.answer("", passes)
	w.pass(time.Second)
	w.policies = []*policy.Policy{read(t, alerting)}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.answer("", passes)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.change("v3")
	w.failed = append(w.failed, nil)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
}

// A rollout of which no alert has held anything has no event about alerts.
func TestQuietAlertsAreNoEvent(t *testing.T) {
	w := newWorld(t, alerting)
	w.pass(0)
	w.answer("", passes)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.restored = true
	w.pass(time.Second)
	w.answer("", passes)
	w.pass(time.Second)
	for _, reason := range []string{policy.ReasonAlertsFiring, policy.ReasonAlertsEnded, policy.ReasonAnalysisUnknown} {
		if slices.Contains(w.events, reason) {
			t.Errorf("there is an event %s: %v", reason, w.events)
		}
	}
	w = newWorld(t, alerting)
	w.pass(0)
	w.answer("", unknown)
	w.pass(time.Second)
	if !slices.Contains(w.events, policy.ReasonAnalysisUnknown) {
		t.Errorf("no event says that the first answer is unknown: %v", w.events)
	}
}

// What alerts hold is the update; nodes return to the committed revision all the same.
func TestAlertsHoldNoUndo(t *testing.T) {
	w := newWorld(t, alerting)
	w.pass(0)
	w.answer("", passes)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.answer("", failing)
	w.pass(time.Second)
	w.s.Set.Update = 0
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseUndoing, "")
	if w.last.Alerts != nil {
		t.Errorf("the status is %+v", w.last.Alerts)
	}
}

// A rollout whose only wave is of all nodes passes it at once if no node needs a pod. Nodes that only keep their pod wait for the end of alerts, like all others.
func TestAlertsHoldNodesOutsideWaves(t *testing.T) {
	w := newWorld(t, strings.Replace(alerting, "nodes: {count: 3}", "nodes: {}", 1))
	for i := range w.s.Nodes {
		w.s.Nodes[i].Fit = rollout.MayStay
	}
	for _, answers := range [][]v1alpha1.Answer{nil, {failing}, {unknown}} {
		if answers != nil {
			w.answer("", answers...)
		}
		w.pass(time.Second)
		if w.out.Commit >= 0 || !strings.HasPrefix(w.verdicts(), "a:wait-alerts b:wait-alerts") {
			t.Errorf("%v: commit %d, verdicts %s", answers, w.out.Commit, w.verdicts())
		}
	}
	w.answer("", passes)
	w.pass(time.Second)
	if w.out.Commit != 1 {
		t.Errorf("commit %d when no alert is firing", w.out.Commit)
	}
}
