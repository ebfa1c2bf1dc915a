// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
)

// measures are answers that a test gives.
type measures struct {
	asked   []policy.Question
	wake    func()
	answers []policy.Answer
}

func (m *measures) Ask(_ clustercache.Key, questions []policy.Question, wake func()) {
	m.asked, m.wake = questions, wake
}

func (m *measures) Answers(clustercache.Key) []policy.Answer {
	all := m.answers
	m.answers = nil
	return all
}

func (m *measures) answer(answers ...v1alpha1.Answer) {
	for _, a := range answers {
		m.answers = append(m.answers, policy.Answer{Question: m.asked[0], Measurement: v1alpha1.Measurement{At: metav1.NewTime(time.Unix(1, 0)), Answer: a}})
	}
	m.wake()
}

// analysedWorld has a canary of one node with an analysis, which is complete.
func analysedWorld(t *testing.T) (*world, *rules, *measures) {
	t.Helper()
	w, r := governedWorld(t)
	p, m := canaryPolicy(), &measures{}
	p.Spec.Analyses = []v1alpha1.Analysis{{Name: "errors", Provider: "main", Query: "errors", Success: "result < 1"}}
	p.Spec.Waves[0].Analysis, p.Spec.Waves[0].After, p.Spec.Waves[0].Soak = []string{"errors"}, nil, nil
	p.Spec.Failure = &v1alpha1.Failure{Action: v1alpha1.FailureUndo}
	r.Policies = []*policy.Policy{policy.Read(p)}
	w.c.Analyses = m
	w.edit("img:v2")
	w.settleAndWait()
	if got := r.last(); got.Phase != v1alpha1.PhaseSoaking || len(m.asked) != 1 || m.asked[0].Complete == 0 || len(w.images("img:v2")) != 1 {
		t.Fatalf("%+v, asked %+v, nodes %v", got, m.asked, w.images("img:v2"))
	}
	return w, r, m
}

// A wave that is measured passes with a Pass, which comes from outside of any pass.
func TestAnAnalysisLetsTheWavePass(t *testing.T) {
	w, r, m := analysedWorld(t)
	w.clock.Step(time.Minute)
	w.settle()
	if n := len(w.images("img:v2")); n != 1 {
		t.Fatalf("%d nodes have the revision without an answer", n)
	}
	m.answer(v1alpha1.AnswerUnknown)
	w.settle()
	if n := len(w.images("img:v2")); n != 1 {
		t.Fatalf("%d nodes have the revision with the answer Unknown", n)
	}
	m.answer(v1alpha1.AnswerPass)
	w.settleAndWait()
	if got := w.images("img:v2"); len(got) != 4 {
		t.Fatalf("nodes %v, %+v", got, r.last())
	}
	if len(m.asked) > 0 {
		t.Errorf("after the rollout it asks %+v", m.asked)
	}
}

// One that fails is marked, and its nodes return.
func TestAnAnalysisUndoes(t *testing.T) {
	w, r, m := analysedWorld(t)
	m.answer(v1alpha1.AnswerFail)
	w.settleAndWait()
	if got := w.images("img:v2"); len(got) > 0 || r.last().Failure == nil || r.last().Failure.Action != v1alpha1.FailureUndo || len(w.images("img:v1")) != 4 {
		t.Fatalf("nodes %v, %+v", got, r.last())
	}
	if events := w.allEvents(); !strings.Contains(events, policy.ReasonAnalysisFailed) || !strings.Contains(events, policy.ReasonRolloutUndone) {
		t.Errorf("events %s", events)
	}
	if len(m.asked) > 0 {
		t.Errorf("after the failure it asks %+v", m.asked)
	}
}

// TestAPassBeforeATimeWithoutDecisions: another controller owns the dialect for an hour, in which nothing is measured. The Pass of before lets no wave pass, and another one does.
func TestAPassBeforeATimeWithoutDecisions(t *testing.T) {
	w, r, m := analysedWorld(t)
	r.Policies[0].Waves[0].Soak = time.Minute
	m.answer(v1alpha1.AnswerPass)
	w.mustPass()
	w.clock.Step(30 * time.Second)
	w.mustPass()
	w.mayWrite = false
	w.mustPass()
	w.clock.Step(time.Hour)
	w.mustPass()
	w.mayWrite = true
	w.mustPass()
	w.clock.Step(31 * time.Second)
	w.settle()
	if got := len(w.images("img:v2")); got != 1 || r.last().Analyses[0].Answer != v1alpha1.AnswerUnknown {
		t.Fatalf("an hour after the only measurement, %d nodes have the revision: %+v", got, r.last())
	}
	m.answer(v1alpha1.AnswerPass)
	w.mustPass()
	w.clock.Step(31 * time.Second)
	w.settleAndWait()
	if got := w.images("img:v2"); len(got) != 4 {
		t.Errorf("nodes %v, %+v", got, r.last())
	}
}
