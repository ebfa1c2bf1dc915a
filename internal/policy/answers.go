// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// maxMeasurements is how many measurements of an analysis a status has.
const maxMeasurements = 10

// health is the combined result of the analyses of a wave.
type health struct {
	// passing reports whether all of them have the answer Pass, and stayed whether they had it since the last decision.
	passing, stayed bool
	// failed reports whether one of them has failed since the last decision.
	failed bool
}

// analyse asks what the analyses of a wave measure, and takes the answers. A wave that is promoted is not measured any more.
func (r *run) analyse(k int, st *v1alpha1.WaveStatus) health {
	h := health{passing: true, stayed: true}
	if r.in.Measuring == AssumedPass || len(r.p.Waves[k].Analysis) > 0 && r.promotion(st.Name) != nil {
		return h
	}
	r.unmet, r.overdue = nil, ""
	var all []v1alpha1.AnalysisStatus
	for _, i := range r.p.Waves[k].Analysis {
		a := &r.p.Analyses[i]
		q := r.ask(Question{
			Analysis: a.Name, Provider: a.Provider, Query: a.Query, Success: a.Success, Interval: a.Interval, Wave: st.Name, Complete: complete(st),
		})
		r.out.Questions = append(r.out.Questions, q)
		as := r.known(q, st)
		h.stayed = h.stayed && as.Answer == v1alpha1.AnswerPass
		h.failed = r.take(a, q, &as) || h.failed
		if as.Answer != v1alpha1.AnswerPass {
			h.passing = false
			r.unmet = append(r.unmet, r.describe(a, &as))
		}
		r.deadline(a, &as)
		all = append(all, as)
	}
	if all != nil {
		r.out.Status.Analyses = all
	}
	return h
}

// deadline determines whether an analysis has had no answer for too long.
func (r *run) deadline(a *Analysis, as *v1alpha1.AnalysisStatus) {
	if as.UnknownFor == nil {
		return
	}
	if rest := a.UnknownDeadline - as.UnknownFor.Duration; rest > 0 {
		r.wakeAt(r.s.Now.Add(rest))
		return
	}
	r.overdue = fmt.Sprintf("The analysis %s of wave %s has had no answer for %s, so no update starts until it has one, or the wave is promoted. %s",
		a.Name, as.Wave, a.UnknownDeadline, newest(as))
}

// known returns the state of an analysis before the new answers. Answers from before the wave became complete
// do not count, nor does a Pass that is too old, and neither do answers to a question about another rollout, wave, query or expression.
func (r *run) known(q Question, st *v1alpha1.WaveStatus) v1alpha1.AnalysisStatus {
	id := q.id()
	as := v1alpha1.AnalysisStatus{Name: q.Analysis, Wave: st.Name, Answer: v1alpha1.AnswerUnknown, Question: id}
	if r.last != nil {
		for i := range r.last.Analyses {
			if l := &r.last.Analyses[i]; l.Name == as.Name && l.Wave == as.Wave && l.Question == id {
				as = *l.DeepCopy()
			}
		}
	}
	was := r.before(st.Name)
	if was == nil || complete(was) != complete(st) || r.in.Restored && r.in.Measuring == MeasuredHere {
		as.Answer = v1alpha1.AnswerUnknown
	}
	if old := r.agePass(id, q.Interval); old && as.Answer == v1alpha1.AnswerPass {
		as.Answer = v1alpha1.AnswerUnknown
	}
	switch {
	case as.Answer != v1alpha1.AnswerUnknown:
	case as.UnknownFor == nil: // since now
		as.UnknownFor = &metav1.Duration{}
	default:
		as.UnknownFor = &metav1.Duration{Duration: as.UnknownFor.Duration + max(r.in.Elapsed, 0)}
	}
	return as
}

// take takes the answers to a question, in their order, and reports whether one of them is Fail. More failures than allowed make the wave fail, also if a
// later answer is Pass. The answer Unknown does not end a series of failures.
func (r *run) take(a *Analysis, q Question, as *v1alpha1.AnalysisStatus) (failed bool) {
	for i := range r.in.Answers {
		if r.in.Answers[i].Question != q {
			continue
		}
		m := r.in.Answers[i].Measurement
		as.Answer, as.Measurements = m.Answer, append(as.Measurements, m)
		r.heard(as.Question, m.Answer)
		switch m.Answer {
		case v1alpha1.AnswerPass:
			as.Failures, as.LastFailure, as.UnknownFor = 0, nil, nil
		case v1alpha1.AnswerFail:
			as.UnknownFor, failed = nil, true
			if isFurther(as.LastFailure, m.At, a.Interval) {
				as.Failures, as.LastFailure = as.Failures+1, &m.At
			}
		default:
			as.Answer = v1alpha1.AnswerUnknown
			if as.UnknownFor == nil {
				as.UnknownFor = &metav1.Duration{}
			}
		}
		if int(as.Failures) > a.FailureLimit && r.out.Fail == nil {
			r.fail(as.Wave, fmt.Sprintf("Wave %s failed: the analysis %s failed %s, and %d may fail. %s", as.Wave, a.Name, inARow(int(as.Failures)), a.FailureLimit, measured(&m)))
			r.failure.Undo = r.p.Failure != nil && r.p.Failure.Undo
		}
	}
	as.Measurements = slices.Clone(as.Measurements[max(len(as.Measurements)-maxMeasurements, 0):])
	return failed
}

// isFurther reports whether a failure counts in addition to the last counted one: at least half of the
// interval must lie between them, because a wave is measured immediately when it becomes complete or the
// leader changes. After a clock was set back, the failure counts.
func isFurther(last *metav1.Time, at metav1.Time, interval time.Duration) bool {
	if last == nil {
		return true
	}
	gap := at.Sub(last.Time)
	return gap < 0 || gap >= interval/2
}

func inARow(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times in a row", n)
}

// measured describes a measurement.
func measured(m *v1alpha1.Measurement) string {
	if m.Value == "" {
		return m.Message
	}
	return fmt.Sprintf("Measured: %s. %s", m.Value, m.Message)
}

// newest describes the newest measurement.
func newest(as *v1alpha1.AnalysisStatus) string {
	if n := len(as.Measurements); n > 0 {
		return measured(&as.Measurements[n-1])
	}
	return "Nothing has been measured yet."
}

// describe says why an analysis does not pass.
func (r *run) describe(a *Analysis, as *v1alpha1.AnalysisStatus) string {
	switch {
	case as.Answer == v1alpha1.AnswerFail:
		return fmt.Sprintf("The analysis %s failed %s, and %d may fail. %s", a.Name, inARow(int(as.Failures)), a.FailureLimit, newest(as))
	case len(as.Measurements) > 0 && as.Measurements[len(as.Measurements)-1].Answer == v1alpha1.AnswerUnknown:
		return fmt.Sprintf("The analysis %s has no answer. %s", a.Name, newest(as))
	case r.out.Memory.passed[as.Question] >= passLasts(a.Interval):
		return fmt.Sprintf("The analysis %s has had no answer for %s, and an older Pass does not count.", a.Name, passLasts(a.Interval))
	default:
		return fmt.Sprintf("The analysis %s is being measured.", a.Name)
	}
}

// blockedUnknown is the reason in a status while an analysis has had no answer for too long.
const blockedUnknown = "AnalysisUnknown"

// holdOverdue stops a rollout of which an analysis has had no answer for too long. It continues when there is an answer.
func (r *run) holdOverdue(wave string) {
	r.stall(rollout.WaitAnalysis, blockedUnknown, r.overdue)
	r.out.Status.Wave = wave
}

// answersChanged creates the events for results of analyses and alerts since the last decision.
func (r *run) answersChanged() {
	st := r.out.Status
	for i := range st.Analyses {
		as := &st.Analyses[i]
		is, was := latest(as), v1alpha1.Answer("")
		if r.last != nil {
			for k := range r.last.Analyses {
				if l := &r.last.Analyses[k]; l.Name == as.Name && l.Wave == as.Wave {
					was = latest(l)
				}
			}
		}
		switch {
		case is == was:
		case is == v1alpha1.AnswerFail:
			r.event(true, ReasonAnalysisFailed, "The analysis %s of wave %s fails. %s", as.Name, as.Wave, newest(as))
		case is == v1alpha1.AnswerUnknown:
			r.event(true, ReasonAnalysisUnknown, "The analysis %s of wave %s has no answer. %s", as.Name, as.Wave, newest(as))
		case was != "":
			r.event(false, ReasonAnalysisPassed, "The analysis %s of wave %s passes again. %s", as.Name, as.Wave, newest(as))
		}
	}
	r.alertsChanged()
}

// alertsChanged creates the event for alerts that begin or cease to hold the rollout.
func (r *run) alertsChanged() {
	is, was := r.out.Status.Alerts, (*v1alpha1.AlertsStatus)(nil)
	if r.last != nil {
		was = r.last.Alerts
	}
	known := was != nil && !r.in.Restored && was.Message != alertsNotRead
	switch {
	case is == nil || is.Message == alertsNotRead || known && was.Answer == is.Answer && was.Message == is.Message:
	case is.Answer == v1alpha1.AnswerFail:
		r.event(true, ReasonAlertsFiring, "No update to revision %s starts. %s", r.out.Status.TargetRevision, is.Message)
	case is.Answer != v1alpha1.AnswerPass:
		r.event(true, ReasonAnalysisUnknown, "No update to revision %s starts, because it is not known whether alerts are firing. %s", r.out.Status.TargetRevision, is.Message)
	case known:
		r.event(false, ReasonAlertsEnded, "No alert holds the rollout of revision %s any more.", r.out.Status.TargetRevision)
	}
}

// latest is the newest answer that was measured; empty for none.
func latest(as *v1alpha1.AnalysisStatus) v1alpha1.Answer {
	if n := len(as.Measurements); n > 0 {
		return as.Measurements[n-1].Answer
	}
	return ""
}
