// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// lies is a story in which a provider answers whatever it likes, also to questions that are not asked any more. It is judged by what was answered.
type lies struct {
	*story
	asked []policy.Question
	// wasWhole is whether the canary was whole at the last decision, and passing whether the newest answer since it became whole is Pass.
	wasWhole, passing bool
	// passed is for how long, and healthy whether the canary of this rollout may have passed.
	passed  time.Duration
	healthy bool
	// streak is how often it has failed in a row, and quiet whether no alert is firing.
	streak int
	quiet  bool
	number int64
	ends   map[string]int
}

const (
	liesLimit  = 1
	liesPolicy = `
analyses: [{name: errors, provider: main, query: x, success: "result < 1", failureLimit: 1, unknownDeadline: 20s}]
waves: [{name: canary, nodes: {selector: {matchLabels: {canary: "yes"}}}, soak: 10s, analysis: [errors]}]
blockOnAlerts: {provider: main}
failure: {nodeDeadline: 10h, maxRestarts: 10000, action: Undo}
`
)

// speak gives answers to the questions that are asked, and to earlier ones. Another leader has none.
func (s *lies) speak(truth bool) (errors, alerts []v1alpha1.Answer) {
	if s.restored {
		return nil, nil
	}
	answer := func() v1alpha1.Answer {
		if truth {
			return passes
		}
		return []v1alpha1.Answer{passes, passes, passes, failing, unknown}[s.random.Intn(5)]
	}
	for range s.random.Intn(3) {
		if len(s.asked) > 0 && len(s.out.Questions) > 0 && !truth {
			// A question about a wave that is not complete, or about alerts, may be asked again, and has been answered then.
			old, is := s.asked[s.random.Intn(len(s.asked))], s.out.Questions[0]
			if old.Complete != 0 && !slices.Contains(s.out.Questions, old) || old.Number != is.Number || old.Attempt != is.Attempt {
				s.answerTo(old, answer())
			}
		}
		for _, q := range s.out.Questions {
			a := answer()
			s.answerTo(q, a)
			if q.Alerts {
				alerts = append(alerts, a)
			} else {
				errors = append(errors, a)
			}
		}
	}
	s.asked = append(s.asked, s.out.Questions...)
	return errors, alerts
}

// note updates what is written down, after a decision.
func (s *lies) note(took time.Duration, restored bool, errors, alerts []v1alpha1.Answer) {
	if number := s.s.Revisions[s.s.Set.Update].Number; number != s.number {
		s.number, s.passing, s.passed, s.healthy, s.streak, s.quiet, s.wasWhole, errors, alerts = number, false, 0, false, 0, false, false, nil, nil
	}
	if restored {
		s.passing, s.quiet = false, false
	}
	for _, a := range alerts {
		s.quiet = a == passes
	}
	whole := s.isWhole()
	before := s.passing && s.wasWhole && whole
	if whole != s.wasWhole {
		s.passing, errors = false, nil
	}
	if !whole {
		s.passed = 0
	}
	for _, a := range errors {
		switch s.passing = a == passes && whole; {
		case a == passes && s.streak <= liesLimit:
			s.streak = 0
		case a == failing:
			s.streak++
			s.passed, before = 0, false
		}
	}
	if before && s.passing {
		s.passed += took
	}
	s.healthy = s.healthy || whole && s.passing && s.passed >= randomSoak
	s.wasWhole = whole
}

// repair makes the old pods of the canary ready: the wave would go on without a node that was broken before.
func (s *lies) repair() {
	for name := range s.canary {
		if n := s.node(name); len(n.Pods) > 0 && n.Pods[0].Revision != s.s.Set.Update {
			n.Pods[0].Ready = true
		}
	}
}

// hasFailed is whether the revision of this rollout has failed, as far as the status says so: the mark alone does not count.
func (s *lies) hasFailed() bool { return s.out.Status != nil && s.out.Status.Failure != nil }

// play lets time pass, decides, carries out what was decided, and returns what was wrong.
func (s *lies) play(truth bool) string {
	errors, alerts := s.speak(truth)
	restored, lost := s.restored, s.last == nil
	took := time.Duration(s.random.Intn(4000)) * time.Millisecond
	s.steady += took
	s.jump(took, took)
	if lost {
		s.streak, s.passed = 0, 0
	}
	s.note(took, restored, errors, alerts)
	if s.hasFailed() {
		s.ends["failed"]++
		if s.streak <= liesLimit && !strings.HasPrefix(s.out.Status.Failure.Message, "The status of the policy was lost, and the annotation") { // it has failed before
			return fmt.Sprintf("it has failed after %d failures in a row: %s", s.streak, s.out.Status.Failure.Message)
		}
	} else if s.streak > liesLimit && !s.healthy && !restored {
		return fmt.Sprintf("it has not failed after %d failures in a row", s.streak)
	}
	if st := s.out.Status; st != nil {
		s.ends[string(st.Phase)]++
	}
	in := s.s
	s.out.Enter(&in, nil)
	plan := rollout.Decide(in)
	if bad := s.judge(&in, &plan); bad != "" {
		return bad
	}
	for _, a := range plan.Actions {
		n := &s.s.Nodes[a.Node]
		s.log = append(s.log, fmt.Sprintf("%s on %s: v%d", a.Reason, n.Name, a.Revision+1))
		if a.Kind == rollout.Create {
			s.put(n.Name, a.Revision, true)
			continue
		}
		n.Last = n.Pods[0].Revision
		if a.Reason == rollout.Recreating {
			n.Last = in.Set.Update
		}
		n.Pods = nil
	}
	return ""
}

// judge says what must not begin.
func (s *lies) judge(in *rollout.Snapshot, plan *rollout.Plan) string {
	undoes := in.Set.Update != s.s.Set.Update
	resting := s.out.Status == nil || s.out.Status.Phase == v1alpha1.PhaseUndoing || s.marks[s.s.Set.Update] > 0 && s.marks[s.s.Set.Update] == slices.Max(s.marks)
	for _, a := range plan.Actions {
		n := &s.s.Nodes[a.Node]
		if undoes || resting || a.Reason != rollout.Recreating && !(a.Kind == rollout.Create && a.Revision == s.s.Set.Update && n.Last != s.s.Set.Update) {
			continue
		}
		switch {
		case !s.canary[n.Name] && !s.healthy:
			return fmt.Sprintf("%s begins although the canary has passed for %s only", n.Name, s.passed)
		case a.Reason == rollout.Recreating && !s.quiet:
			return n.Name + " begins while an alert may be firing"
		case s.streak > liesLimit && !s.healthy:
			return n.Name + " begins after the failure"
		}
	}
	return ""
}

// TestRandomLies: whatever a provider answers, and to whatever question, no node begins before the canary has passed for its soak, or while an alert may be
// firing; a revision fails exactly when the analysis has failed more often in a row than allowed; and with true answers each rollout ends.
func TestRandomLies(t *testing.T) {
	stories, ends := 400, map[string]int{}
	if testing.Short() {
		stories = 200
	}
	for seed := range int64(stories) {
		s := &lies{story: newStory(t, seed), ends: ends, number: -1}
		s.policies = []*policy.Policy{read(t, liesPolicy)}
		for range 100 {
			s.happen()
			s.repair()
			if bad := s.play(false); bad != "" {
				t.Fatalf("story %d: %s\n%s\n%+v", seed, bad, strings.Join(s.log, "\n"), *s.out.Status)
			}
		}
		s.s.Revisions = append(s.s.Revisions, rollout.Revision{Name: "last", Number: 1_000_000, Created: s.s.Now})
		s.marks, s.failed = append(s.marks, 0), []*everynode.Failure{nil, nil}
		s.s.Set.Update = len(s.s.Revisions) - 1
		for i := 0; i < 2000 && (s.out.Status == nil || s.out.Status.Phase != v1alpha1.PhaseComplete || s.number != 1_000_000); i++ {
			for i := range s.s.Nodes {
				for k := range s.s.Nodes[i].Pods {
					s.s.Nodes[i].Pods[k].Ready = true
				}
			}
			if bad := s.play(true); bad != "" {
				t.Fatalf("story %d, at its end: %s\n%s", seed, bad, strings.Join(s.log, "\n"))
			}
		}
		if s.out.Status.Phase != v1alpha1.PhaseComplete {
			t.Fatalf("story %d does not end: %+v\n%s\n%s", seed, *s.out.Status, s.verdicts(), strings.Join(s.log[max(0, len(s.log)-40):], "\n"))
		}
	}
	for _, end := range []string{"failed", string(v1alpha1.PhaseUndoing), string(v1alpha1.PhaseStalled), string(v1alpha1.PhaseSoaking), string(v1alpha1.PhaseComplete)} {
		if ends[end] == 0 {
			t.Errorf("no story comes to %s: %v", end, ends)
		}
	}
}
