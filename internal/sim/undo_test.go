// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	rollouts "everynode.dev/everynode/internal/policy"
)

const (
	analysisName = "errors"
	// undoDeadline is how long a pod may be unavailable in a run with undos.
	undoDeadline = 20 * time.Second
	// mostAnswers is how many answers that the manager has not taken a provider has, at most.
	mostAnswers = 3
)

// undoes is whether a revision that fails is undone, and whether an analysis judges it too.
func (c config) undoes() bool { return c.with("rollouts") && c.with("undos") }

// anyUndo is by chance how a policy judges and undoes, in the words that undoOf reads.
func anyUndo(r *rand.Rand) string {
	words := ",undo:" + oneOf(r, "0", "0", "1")
	if r.IntN(2) == 0 {
		words += ",analysis"
	}
	if r.IntN(2) == 0 {
		words += ",anytime"
	}
	return words
}

// undoOf reads a word of a policy that says how it judges and undoes.
func undoOf(spec *v1alpha1.RolloutPolicySpec, word string, value intstr.IntOrString) {
	switch word {
	case "undo": // so many nodes of a wave may fail
		spec.Failure = &v1alpha1.Failure{NodeDeadline: &metav1.Duration{Duration: undoDeadline}, MaxFailedNodes: &value, Action: v1alpha1.FailureUndo}
		one := intstr.FromInt32(1)
		spec.Undo = &v1alpha1.Undo{MaxUnavailable: &one}
	case "anytime":
		spec.Undo.IgnoreWindows = true
	case "analysis": // of the first wave
		limit := int32(1)
		spec.Analyses = []v1alpha1.Analysis{{
			Name: analysisName, Provider: "main", Query: "errors", Success: "result < 1", FailureLimit: &limit,
			Interval: &metav1.Duration{Duration: 5 * time.Second}, UnknownDeadline: &metav1.Duration{Duration: 10 * time.Second},
		}}
		spec.Waves[0].Analysis = []string{analysisName}
	}
}

// provider measures what policies ask for, and says what it likes, if it says anything. It belongs to a manager.
type provider struct {
	m *manager
	// questions are those of now, asked all that there ever were, and answers those that the manager has not taken.
	questions, asked []rollouts.Question
	answers          []rollouts.Answer
	// said is the last answer that the manager has taken about the first wave of a rollout, when it was complete.
	said map[int64]v1alpha1.Answer
	// last is the last answer to each question that the manager has taken.
	last map[rollouts.Question]v1alpha1.Answer
	// at is when the last answer to each question was given.
	at map[rollouts.Question]time.Time
	// repeats is how often each answer was given again.
	repeats map[rollouts.Question]int
}

// Ask implements daemonset.Analyses.
func (p *provider) Ask(key clustercache.Key, questions []rollouts.Question, _ func()) {
	p.m.s.tick.Load()
	if key != p.m.key {
		return
	}
	p.questions = questions
	for _, q := range questions {
		if !slices.Contains(p.asked, q) {
			p.asked = append(p.asked, q)
		}
	}
}

// Answers implements daemonset.Analyses.
func (p *provider) Answers(key clustercache.Key) []rollouts.Answer {
	p.m.s.tick.Load()
	if key != p.m.key {
		return nil
	}
	all := p.answers
	p.answers = nil
	for i := range all {
		q := all[i].Question
		if p.last[q] = all[i].Answer; q.Complete != 0 {
			p.said[q.Number] = all[i].Answer
		}
	}
	return all
}

// answerTo is an answer to a question.
func (p *provider) answerTo(q rollouts.Question, is v1alpha1.Answer) {
	p.answers = append(p.answers, rollouts.Answer{Question: q, Measurement: v1alpha1.Measurement{At: metav1.NewTime(p.m.s.w.now), Answer: is, Value: "1"}})
	p.m.asked, p.at[q] = true, p.m.s.w.now
}

// providerOps are what a provider says: that it passes, that it fails, or that nothing is known; to what is asked, or to what was asked before. It hangs as long as it
// says nothing.
func (p *provider) providerOps(ops []op) []op {
	if len(p.answers) >= mostAnswers {
		return ops
	}
	ops = p.alertOps(ops)
	for _, is := range []v1alpha1.Answer{v1alpha1.AnswerPass, v1alpha1.AnswerFail, v1alpha1.AnswerUnknown} {
		if i := slices.IndexFunc(p.questions, func(q rollouts.Question) bool { return !q.Alerts }); i >= 0 {
			ops = append(ops, op{words("the provider of %s says %s", p.m.name, is), 4, func() { p.answerTo(p.questions[i], is) }})
		}
		if len(p.asked) > 1 {
			ops = append(ops, op{words("the provider of %s says %s to what was asked at first", p.m.name, is), 1, func() { p.answerTo(p.asked[0], is) }})
		}
	}
	return ops
}

const (
	// fairPeriod is how often a provider says how it is. A Pass that is much older does not count any more.
	fairPeriod = 30 * time.Second
	// fairRepeats is how often it repeats itself: a wave may wait for something else for ever.
	fairRepeats = 8
)

// fairAnswer is that the provider says how it is: the image passes unless it is a bad one; nil if it has said so a short time ago, or often enough.
func (p *provider) fairAnswer() *op {
	if o := p.fairAlerts(); o != nil {
		return o
	}
	for _, q := range p.questions {
		if q.Alerts {
			continue
		}
		lately := p.repeats[q] >= fairRepeats || p.m.s.ill != "" || p.m.s.w.now.Sub(p.at[q]) < fairPeriod
		if p.m.running || p.last[q] == v1alpha1.AnswerPass && lately || len(p.answers) > 0 {
			continue
		}
		if p.last[q] == v1alpha1.AnswerPass {
			p.repeats[q]++
		}
		return &op{words("the provider of %s says %s", p.m.name, v1alpha1.AnswerPass), 1, func() { p.answerTo(q, v1alpha1.AnswerPass) }}
	}
	return nil
}

// next is when the provider says again how it is, if the analysis of a wave has had no answer since its pods got ready, or it is not known whether alerts are firing; zero for never.
func (p *provider) next() (at time.Time) {
	if p.m.rules == nil {
		return at
	}
	of := p.m.rules.policies[policyName]
	if of != nil {
		at = p.nextAlerts(of)
	}
	if of == nil || p.m.s.ill != "" || !slices.ContainsFunc(p.m.reported(of), func(st v1alpha1.SetStatus) bool {
		return slices.ContainsFunc(st.Analyses, func(a v1alpha1.AnalysisStatus) bool { return a.Answer == v1alpha1.AnswerUnknown })
	}) {
		return at
	}
	for _, q := range p.questions {
		if !q.Alerts && p.repeats[q] < fairRepeats {
			at = earlier(at, p.at[q].Add(fairPeriod))
		}
	}
	return at
}

// passes is whether the last answer about the complete first wave of a rollout is Pass, of those that the manager has taken, or takes with its next decision.
func (p *provider) passes(number int64) bool {
	said := p.said[number]
	for i := range p.answers {
		if q := p.answers[i].Question; q.Complete != 0 && q.Number == number {
			said = p.answers[i].Answer
		}
	}
	return said == v1alpha1.AnswerPass
}

// lastIllness is one more rollout, of an image that works, while no pod gets ready on one node: that was so before, or the node joins in the middle, so the image must not
// fail, also if the leader dies then. The other nodes may have to wait for that node, for it uses the budget up.
func (s *sim) lastIllness() {
	nodes := s.w.nodes()
	if s.broken != nil || !s.cfg.undoes() || len(nodes) == 0 || byHand(s.w.set()) {
		return
	}
	s.restartOften()
	joins := s.w.rv%3 == 0
	if s.ill = nodes[s.w.rv%len(nodes)].Name; joins {
		s.ill = words("n%d", s.cfg.nodes+2)
	}
	s.sick = s.ill
	s.note("no pod gets ready on %s any more", s.ill)
	for _, p := range s.podsOn(s.ill) {
		s.w.changePod(p, func(p *corev1.Pod) { s.setReady(p, false) })
	}
	if !s.fair(s.fairRounds()) {
		s.blame("undo", "after %d fair rounds it has not come to rest with a pod that is not ready", s.fairRounds())
	}
	s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) {
		spec.Waves, spec.Failure, spec.Analyses = s.cfg.specOf().Waves, s.cfg.specOf().Failure, s.cfg.specOf().Analyses
	})
	s.w.editSet(func(spec map[string]any) { setImage(spec, otherImage(s.w.set())) })
	s.note("a user edits the image while %s is ill", s.ill)
	if joins {
		s.note("%s joins", s.ill)
		s.w.put(ofNodes, newNode(s.ill, s.w.now))
	}
	if s.trouble = noTrouble; s.w.rv%2 == 0 {
		s.trouble = aDeathInTheUndo
	}
	if !s.fair(s.fairRounds()) {
		s.blame("undo", "after %d fair rounds it has not come to rest with a node that is ill", s.fairRounds())
	}
	s.note("%s is not ill any more", s.ill)
	s.ill = ""
	s.rest()
}

// otherImage is another image that works than the one of a set.
func otherImage(set *unstructured.Unstructured) string {
	return map[bool]string{true: "v1", false: "v2"}[path.Base(imageOfSet(set)) == "v2"]
}

// judgeFailure looks at a failure that a manager reports while nothing is wrong but what was wrong before. Where webhooks are slow, a create may take longer than a
// node has time to become available, and so may a restart in place on a node without an agent.
func (s *sim) judgeFailure(m *manager, st *v1alpha1.SetStatus) {
	s.judgeSoon(st)
	if s.ill != "" && st != nil && st.Failure != nil && !s.cfg.with("slowness") && !s.cfg.with("restarts") {
		s.blame("undo", "%s reports that %s has failed, while nothing is wrong but that no pod gets ready on %s, as before: %s", m.name, st.TargetRevision, s.ill, st.Failure.Message)
	}
}

// lastUndo is one more rollout, of an image that never works, when all has come to its end: it fails, and all nodes return to the committed revision, also if the
// leader dies in the middle.
func (s *sim) lastUndo() {
	if s.broken != nil || !s.cfg.undoes() || len(s.w.nodes()) == 0 || byHand(s.w.set()) {
		return
	}
	s.restartOften()
	was := imageOfSet(s.w.set())
	s.editPolicy(func(spec *v1alpha1.RolloutPolicySpec) {
		of := s.cfg.specOf()
		spec.Waves, spec.Failure, spec.Undo, spec.Analyses = of.Waves, of.Failure, of.Undo, of.Analyses
	})
	s.note("a user sets the image v4-bad at the end")
	s.undoBegan, s.failed = s.w.now, false
	s.undoing, s.touched, s.earlier = true, map[string]bool{}, map[types.UID]bool{}
	for _, p := range s.w.pods() {
		s.earlier[p.UID] = strings.HasSuffix(imageOf(p), "bad")
	}
	s.w.editSet(func(spec map[string]any) { setImage(spec, "v4-bad") })
	s.trouble = []trouble{noTrouble, aDeathInTheUndo, aLossInTheUndo}[s.w.rv%3]
	if !s.fair(s.fairRounds()) && s.broken == nil {
		s.blame("undo", "after %d fair rounds the undo has not come to rest", s.fairRounds())
	}
	if s.trouble = noTrouble; s.bringNodesUp() && !s.fair(s.fairRounds()) && s.broken == nil {
		s.blame("undo", "after %d fair rounds the undo has not come to rest with all nodes", s.fairRounds())
	}
	s.checkUndone(was)
	s.undoing = false
	s.w.editSet(func(spec map[string]any) { setImage(spec, path.Base(was)) })
	s.rest()
}

// checkUndone: the image has failed, no more nodes have ever got it than the budget and the failures allow, all of them of the first wave, and every node that must run a
// pod has an available one of the committed revision.
func (s *sim) checkUndone(was string) {
	p, all := s.w.rolloutPolicy(), s.everything()
	members := all.desired()
	if s.broken != nil || p == nil || members == 0 || len(p.Status.Sets) == 0 || p.Status.Sets[0].Enforcement == v1alpha1.EnforcementNone {
		return
	}
	st, allowed := &p.Status.Sets[0], quantity(amount(p.Spec.Failure.MaxFailedNodes.String()), members)
	if st.Failure == nil && len(s.touched) <= allowed {
		return // so many may fail, and the budget lets no more get the image
	}
	if st.Failure == nil || st.Failure.Action != v1alpha1.FailureUndo {
		s.blame("undo", "an image that never works has not failed: %s, %+v", st.Phase, st.Failure)
	}
	limit, surge := budgetsOf(s.w.set(), members)
	if most := max(limit, surge) + allowed; len(s.touched) > most {
		s.blame("undo", "%v got an image that never works, and %d may", sorted(s.touched), most)
	}
	for _, n := range s.w.nodes() {
		pods := slices.DeleteFunc(s.podsOn(n.Name), func(p *corev1.Pod) bool { return !live(p) })
		if all.fit(n.Name) != mustRun {
			continue
		}
		if len(pods) != 1 || imageOf(pods[0]) != was || !available(pods[0], 0, s.w.now) {
			s.blame("undo", "after the undo %s has %d pods, or none of %s that is available", n.Name, len(pods), was)
		}
	}
}

// touch notes which nodes have a pod that never works. One that a stranger made, and the set has adopted, is none of the update.
func (s *sim) touch() {
	if !s.undoing {
		return
	}
	for _, p := range s.w.pods() {
		if ownedBy(p, s.w.set()) && !s.earlier[p.UID] && strings.HasSuffix(imageOf(p), "bad") && !isStrangers(p) {
			s.touched[nodeOf(p)] = true
		}
	}
}

// isIll is whether a pod of the set cannot get ready because its node is ill.
func (s *sim) isIll(p *corev1.Pod) bool { return nodeOf(p) == s.ill && ownedBy(p, s.w.set()) }
