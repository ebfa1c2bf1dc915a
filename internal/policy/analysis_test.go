// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

const analysed = `
analyses: [{name: errors, provider: main, query: "errors{{new}}", interval: 1m, success: "result < 0.01", failureLimit: 2, unknownDeadline: 30m}]
waves: [{name: canary, nodes: {count: 3}, soak: 10m, analysis: [errors]}]
failure: {action: Undo}
`

const (
	passes  = v1alpha1.AnswerPass
	failing = v1alpha1.AnswerFail
	unknown = v1alpha1.AnswerUnknown
)

// question is the one of an analysis that is asked now; the alerts have an empty name.
func (w *world) question(name string) policy.Question {
	w.t.Helper()
	for _, q := range w.out.Questions {
		if q.Analysis == name && q.Alerts == (name == "") {
			return q
		}
	}
	w.t.Fatalf("%q is not asked: %+v", name, w.out.Questions)
	return policy.Question{}
}

// answer gives answers to the question of an analysis, which the next pass gets.
func (w *world) answer(name string, answers ...v1alpha1.Answer) {
	w.t.Helper()
	w.answerTo(w.question(name), answers...)
}

func (w *world) answerTo(q policy.Question, answers ...v1alpha1.Answer) {
	for _, a := range answers {
		w.measured += time.Minute
		m := v1alpha1.Measurement{At: metav1.NewTime(time.Unix(0, int64(noon.Add(w.measured)))), Answer: a, Value: "0.3", Message: "result < 0.01 is " + string(a) + "."}
		w.answers = append(w.answers, policy.Answer{Question: q, Measurement: m})
	}
}

// observed is a rollout of which the first wave is complete and waits for its analysis.
func observed(t *testing.T, spec string) *world {
	t.Helper()
	w := canary(t, spec)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	return w
}

// passing lets time pass in which an analysis passes in each interval.
func (w *world) passing(name string, d time.Duration) {
	w.t.Helper()
	for ; d > 0; d -= time.Minute {
		w.answer(name, passes)
		w.pass(min(d, time.Minute))
	}
}

// A wave passes when its analyses have passed for the time of its soak, and not before.
func TestAWavePassesWhenItsAnalysesDo(t *testing.T) {
	w := observed(t, analysed)
	w.pass(time.Hour) // nothing has been measured
	w.want("", v1alpha1.PhaseStalled, "canary")
	w = observed(t, analysed)
	w.pass(20 * time.Minute)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if got := w.verdicts(); !strings.Contains(got, "d:wait-analysis") {
		t.Errorf("the nodes of the next wave have %s", got)
	}
	w.answer("errors", passes)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.passing("errors", 9*time.Minute)
	w.want("", v1alpha1.PhaseSoaking, "canary") // what was before the first answer does not count
	if got := w.verdicts(); !strings.Contains(got, "d:wait-soak") {
		t.Errorf("the nodes of the next wave have %s", got)
	}
	w.pass(time.Minute)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
	if len(w.out.Questions) > 0 || len(w.last.Analyses) != 1 || len(w.last.Analyses[0].Measurements) != 10 {
		t.Errorf("after the wave: questions %+v, status %+v", w.out.Questions, w.last.Analyses)
	}
}

// What was measured while the wave was being updated does not count once it is complete, nor does the time before the first answer, or in which the answer was
// unknown. A wave without a soak needs an answer as well.
func TestOnlyTheTimeThatPassesCounts(t *testing.T) {
	w := newWorld(t, analysed)
	w.pass(0)
	w.put("a", 1, true)
	w.pass(time.Second)
	w.answer("errors", passes)
	w.pass(time.Second)
	w.put("b", 1, true)
	w.put("c", 1, true)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if as := w.last.Analyses[0]; as.Answer != unknown || len(as.Measurements) != 1 {
		t.Errorf("the status is %+v", as)
	}
	w.pass(20 * time.Minute)
	w.answer("errors", passes)
	w.pass(20 * time.Minute)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.answer("errors", unknown)
	w.pass(9 * time.Minute)
	w.answer("errors", passes)
	w.pass(9 * time.Minute)
	w.passing("errors", 9*time.Minute)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(time.Minute)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")

	w = observed(t, strings.ReplaceAll(analysed, "soak: 10m, ", ""))
	w.pass(time.Second)
	w.answer("errors", unknown)
	w.pass(time.Second)
	w.answer("errors", failing)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.answer("errors", passes)
	w.pass(time.Second)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
}

// A question says what it is about; nothing is asked before a node of the wave is updated.
func TestQuestions(t *testing.T) {
	w := newWorld(t, analysed)
	w.pass(0)
	if len(w.out.Questions) > 0 {
		t.Fatalf("asked %+v before a node is updated", w.out.Questions)
	}
	w.put("a", 1, true)
	w.pass(time.Second)
	rolling := w.question("errors")
	if rolling.Old != "v1" || rolling.New != "v2" || rolling.Wave != "canary" || rolling.Set != "agent" || rolling.Namespace != "default" || rolling.Complete != 0 || rolling.Interval != time.Minute {
		t.Errorf("the question is %+v", rolling)
	}
	for _, name := range []string{"b", "c"} {
		w.put(name, 1, true)
	}
	w.answer("errors", passes)
	w.pass(time.Second)
	complete := w.question("errors")
	if complete.Complete == 0 || w.last.Analyses[0].Answer != unknown {
		t.Errorf("an answer from before the wave was complete counts: %+v", w.last.Analyses[0])
	}
	// An answer to a question about an earlier state, wave, revision or expression does not count.
	for _, change := range []func(q *policy.Question){
		func(q *policy.Question) { *q = rolling }, func(q *policy.Question) { q.Wave = "other" }, func(q *policy.Question) { q.New = "v9" },
		func(q *policy.Question) { q.Number++ }, func(q *policy.Question) { q.Attempt++ }, func(q *policy.Question) { q.Success = "true" },
		func(q *policy.Question) { q.Policy = "another" }, func(q *policy.Question) { q.Provider = "another" },
	} {
		q := complete
		change(&q)
		w.answerTo(q, passes, failing, failing, failing, failing)
	}
	w.pass(20 * time.Minute)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if as := w.last.Analyses[0]; as.Answer != unknown || as.Failures != 0 || len(as.Measurements) != 0 {
		t.Errorf("the status is %+v", as)
	}
}

// More failures in a row than allowed make the wave fail, like a node that fails; as many as allowed do not, and one that passes ends the series.
func TestFailureLimitOfAnAnalysis(t *testing.T) {
	w := observed(t, analysed)
	w.answer("errors", failing, failing)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.answer("errors", passes, failing, unknown, failing)
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if as := w.last.Analyses[0]; as.Failures != 2 || as.Answer != failing || len(as.Measurements) != 6 {
		t.Fatalf("the status is %+v", as)
	}
	w.answer("errors", unknown)
	w.pass(time.Minute)
	w.answer("errors", failing, passes) // the third in a row, although the last one passes
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseFailed, "canary")
	mark := w.failed[1]
	if mark == nil || !mark.Undo || mark.Wave != "canary" || !strings.Contains(mark.Message, "the analysis errors failed 3 times in a row, and 2 may fail. Measured: 0.3. result < 0.01 is Fail.") {
		t.Fatalf("the mark is %+v", mark)
	}
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseUndoing, "canary")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	if len(w.out.Questions) > 0 || len(w.last.Analyses) != 1 {
		t.Errorf("after the failure: questions %+v, status %+v", w.out.Questions, w.last.Analyses)
	}
	for _, reason := range []string{policy.ReasonAnalysisFailed, policy.ReasonRolloutFailed, policy.ReasonRolloutUndone} {
		if !slices.Contains(w.events, reason) {
			t.Errorf("no event %s in %v", reason, w.events)
		}
	}
	w.approve("again", "", "v2", v1alpha1.Retry)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "")
	if w.last.Analyses != nil {
		t.Errorf("the retry begins with %+v", w.last.Analyses)
	}
	w.approvals = nil
	w.pass(2 * time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if as := w.last.Analyses; len(as) != 1 || as[0].Failures != 0 || as[0].Answer != unknown {
		t.Errorf("after the retry: %+v", as)
	}
}

// A wave is measured at once when it becomes complete, and by another leader. A failure that is measured so soon after another one is no further one.
func TestFailuresOfOneMoment(t *testing.T) {
	w := observed(t, analysed)
	at := func(after time.Duration) {
		w.answer("errors", failing)
		w.answers[0].At = metav1.NewTime(time.Unix(0, int64(noon)).Add(after))
		w.pass(time.Second)
	}
	for _, c := range []struct {
		after time.Duration
		want  int32
	}{{0, 1}, {time.Second, 1}, {20 * time.Second, 1}, {29 * time.Second, 1}, {30 * time.Second, 2}, {59 * time.Second, 2}} {
		at(c.after)
		if got := w.last.Analyses[0]; got.Failures != c.want || got.Answer != failing {
			t.Fatalf("after %s: %+v, want %d failures", c.after, got, c.want)
		}
	}
	w.restored = true
	w.pass(time.Second)
	at(59 * time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	at(-time.Hour) // the clock was set back
	w.want("", v1alpha1.PhaseFailed, "canary")
}

// Without spec.failure, and with the action Pause, a wave that fails holds.
func TestAnAnalysisThatFailsPauses(t *testing.T) {
	for _, spec := range []string{strings.ReplaceAll(analysed, "failure: {action: Undo}\n", ""), strings.ReplaceAll(analysed, "action: Undo", "action: Pause")} {
		w := observed(t, spec)
		w.answer("errors", failing, failing, failing)
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseFailed, "canary")
		w.pass(time.Hour)
		w.want("", v1alpha1.PhaseFailed, "canary")
		if w.have(1) != "abc" || w.failed[1] == nil || w.failed[1].Undo {
			t.Errorf("nodes %s have the revision, the mark is %+v", w.have(1), w.failed[1])
		}
	}
}

// A wave also fails while its nodes are still being updated.
func TestAnAnalysisFailsWhileTheWaveRolls(t *testing.T) {
	w := newWorld(t, analysed)
	w.pass(0)
	w.put("a", 1, true)
	w.pass(time.Second)
	w.answer("errors", failing, failing, failing)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.pass(time.Second)
	w.want("a", v1alpha1.PhaseUndoing, "canary")
}

// A failure within the limit starts the soak again.
func TestAFailureStartsTheSoakAgain(t *testing.T) {
	w := observed(t, analysed)
	w.answer("errors", passes)
	w.pass(time.Second)
	w.passing("errors", 9*time.Minute)
	w.answer("errors", failing, passes)
	w.pass(50 * time.Second)
	w.passing("errors", 9*time.Minute)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(time.Minute)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
}

// Unknown never passes: the wave waits, is stalled after the deadline, never fails and never returns, and goes on when there is an answer.
func TestUnknownNeverPasses(t *testing.T) {
	w := observed(t, analysed)
	w.answer("errors", passes)
	w.pass(time.Second)
	w.answer("errors", unknown)
	w.pass(time.Minute)
	for range 29 {
		w.answer("errors", unknown)
		w.pass(time.Minute)
		w.want("", v1alpha1.PhaseSoaking, "canary")
	}
	if got := w.last.Blocking[0]; got.Reason != "Analysis" || !strings.Contains(got.Message, "The analysis errors has no answer.") {
		t.Errorf("blocking: %+v", got)
	}
	w.answer("errors", unknown)
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseStalled, "canary")
	if got := w.last.Blocking[0]; got.Reason != "AnalysisUnknown" || !strings.Contains(got.Message, "The analysis errors of wave canary has had no answer for 30m0s") {
		t.Errorf("blocking: %+v", got)
	}
	w.pass(100 * time.Hour)
	w.want("", v1alpha1.PhaseStalled, "canary")
	if w.failed[1] != nil || w.have(1) != "abc" || len(w.last.Analyses[0].Measurements) != 10 {
		t.Errorf("nodes %s have the revision, the mark is %+v, %d measurements", w.have(1), w.failed[1], len(w.last.Analyses[0].Measurements))
	}
	w.answer("errors", passes)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.passing("errors", 10*time.Minute)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
	for _, reason := range []string{policy.ReasonAnalysisUnknown, policy.ReasonRolloutStalled, policy.ReasonAnalysisPassed} {
		if !slices.Contains(w.events, reason) {
			t.Errorf("no event %s in %v", reason, w.events)
		}
	}
}

// While the answer has been unknown for too long, no further node of the wave that rolls is updated either.
func TestTheDeadlineHoldsTheWaveThatRolls(t *testing.T) {
	w := newWorld(t, strings.ReplaceAll(analysed, "nodes: {count: 3}", "nodes: {count: 3}, growth: {start: 1, factor: 1}"))
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.node("b").Pods[0].Ready = false
	w.pass(31 * time.Minute)
	w.want("", v1alpha1.PhaseStalled, "canary")
	w.answer("errors", passes)
	w.pass(time.Second)
	w.want("b", v1alpha1.PhaseRolling, "canary")
}

// A user can promote a wave without the answers.
func TestPromotionEndsTheAnalysis(t *testing.T) {
	w := observed(t, analysed)
	w.answer("errors", failing, unknown)
	w.pass(2 * time.Hour)
	w.pass(2 * time.Hour)
	w.want("", v1alpha1.PhaseStalled, "canary")
	w.approve("now", "canary", "v2", v1alpha1.Promote)
	w.pass(time.Second)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
}

// A wave that is promoted before it is complete is not measured, so it is not stalled either.
func TestPromotionInAdvance(t *testing.T) {
	w := newWorld(t, analysed)
	w.pass(0)
	w.put("a", 1, true)
	w.pass(time.Second)
	w.answer("errors", failing, failing)
	w.pass(time.Second)
	w.approve("now", "canary", "v2", v1alpha1.Promote)
	w.pass(time.Hour)
	w.want("bc", v1alpha1.PhaseRolling, "canary")
	if len(w.out.Questions) > 0 {
		t.Errorf("asked %+v", w.out.Questions)
	}
	w.pass(time.Second)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
}

// Another leader continues with the failures of the one before, but measures before the wave passes. With the status lost, everything is measured again.
func TestMeasurementsSurviveALeader(t *testing.T) {
	w := observed(t, analysed)
	w.answer("errors", passes)
	w.pass(time.Second)
	w.passing("errors", 9*time.Minute+50*time.Second)
	w.restored = true
	w.pass(time.Minute)
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.answer("errors", failing, failing)
	w.pass(time.Second)
	w.restored = true
	w.pass(time.Second)
	if as := w.last.Analyses[0]; as.Failures != 2 || as.Answer != unknown || len(as.Measurements) != 10 {
		t.Fatalf("the new leader has %+v", as)
	}
	w.answer("errors", failing)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "canary")

	w = observed(t, analysed)
	w.answer("errors", passes)
	w.pass(time.Second)
	w.passing("errors", 9*time.Minute)
	old := w.question("errors")
	w.last, w.restored = nil, true
	w.pass(time.Hour)
	w.answerTo(old, passes)
	w.pass(11 * time.Minute)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.answer("errors", passes)
	w.pass(time.Second)
	w.passing("errors", 10*time.Minute)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
}

// A new template goes through its own measurements, and a query that was changed gets its own answer.
func TestAnswersOfAnotherRevisionDoNotCount(t *testing.T) {
	w := observed(t, analysed)
	w.answer("errors", failing, failing)
	w.pass(time.Second)
	old := w.question("errors")
	w.change("v3")
	w.failed = append(w.failed, nil)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.answerTo(old, failing)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if as := w.last.Analyses; len(as) != 1 || as[0].Failures != 0 || len(as[0].Measurements) != 0 {
		t.Errorf("the status is %+v", as)
	}
	w.answer("errors", passes)
	w.pass(time.Second)
	w.policies = []*policy.Policy{read(t, strings.ReplaceAll(analysed, "result < 0.01", "result < 0.001"))}
	w.pass(20 * time.Minute)
	w.want("", v1alpha1.PhaseSoaking, "canary")
}

// With readyWhen: WaveHealthy, a wave that soaks is healthy only while its analyses pass.
func TestAWaveThatIsAnalysedIsHealthy(t *testing.T) {
	w := observed(t, analysed+"readyWhen: WaveHealthy\n")
	ready := func() bool {
		sets := []v1alpha1.SetStatus{*w.last}
		return meta.IsStatusConditionTrue(w.policies[0].Conditions(nil, sets, nil, metav1.NewTime(time.Unix(1, 0))), v1alpha1.ConditionReady)
	}
	for _, a := range []v1alpha1.Answer{unknown, passes, failing, passes} {
		w.answer("errors", a)
		w.pass(time.Second)
		if ready() != (a == passes) {
			t.Errorf("with the answer %s the policy is ready: %t", a, ready())
		}
	}
}

// A name that no analysis has is a problem with its path.
func TestAnalysisThatDoesNotExist(t *testing.T) {
	p := read(t, "waves: [{name: canary, nodes: {count: 3}, analysis: [errors]}]")
	if want := []string{`spec.waves[0].analysis[0]: "errors" is the name of no entry of spec.analyses`}; !slices.Equal(p.Problems, want) {
		t.Errorf("problems %q, want %q", p.Problems, want)
	}
}

// A reader of the cluster shows what the manager has found out, and a plan assumes that analyses pass and that no alert is firing.
func TestReadersOfAnalyses(t *testing.T) {
	both := analysed + "blockOnAlerts: {provider: main}\n"
	w := newWorld(t, both)
	w.pass(0)
	w.answer("", passes)
	w.pass(time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.answer("errors", passes)
	w.pass(time.Second)
	w.measuring, w.restored = policy.MeasuredElsewhere, true
	w.pass(0)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if st := w.last; st.Analyses[0].Answer != passes || st.Alerts.Answer != passes {
		t.Errorf("a reader sees %+v, %+v", st.Analyses, st.Alerts)
	}

	w = newWorld(t, both)
	w.measuring = policy.AssumedPass
	w.pass(0)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(10 * time.Minute)
	w.want("defghij", v1alpha1.PhaseRolling, "remaining")
	if len(w.out.Questions) > 0 {
		t.Errorf("a plan asks %+v", w.out.Questions)
	}
}
