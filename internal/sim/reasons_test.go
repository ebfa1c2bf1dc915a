// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	rollouts "everynode.dev/everynode/internal/policy"
)

const (
	// lateNode is how long a pod may be unavailable in a run in which something else is to make an image fail, and soonFailed how soon that does it at the end.
	lateNode   = 20 * time.Minute
	soonFailed = 10 * time.Minute
	// oldAlerts is when an answer about alerts is too old for each manager.
	oldAlerts = 3 * time.Minute
	// alertRepeats is how often a provider repeats at the end that no alert is firing.
	alertRepeats = 16
)

// reasons is whether a revision fails for the reasons for which containers wait, or because a wave takes too long, and whether alerts may hold it.
func (c config) reasons() bool { return c.undoes() && c.with("reasons") }

// anyReasons is by chance for what a revision fails, in the words that reasonsOf reads.
func anyReasons(r *rand.Rand) string {
	return oneOf(r, ",waiting", ",waiting", ",late:300") + oneOf(r, "", ",alerts")
}

// reasonsOf reads a word of a policy that says for what a revision fails, and what holds it.
func reasonsOf(spec *v1alpha1.RolloutPolicySpec, word string, value intstr.IntOrString) {
	switch word {
	case "waiting":
		spec.Failure.NodeDeadline, spec.Failure.WaitingReasons = &metav1.Duration{Duration: lateNode}, []string{"CrashLoopBackOff", "ImagePullBackOff"}
	case "late": // a wave may take so many seconds
		spec.Failure.NodeDeadline, spec.Failure.WaveDeadline = &metav1.Duration{Duration: lateNode}, &metav1.Duration{Duration: time.Duration(value.IntVal) * time.Second}
	case "alerts":
		spec.BlockOnAlerts = &v1alpha1.BlockOnAlerts{Provider: "main", Match: `severity="critical"`}
	}
}

// hasWord is whether the policy of a run has a word, also while faults are off.
func (c config) hasWord(word string) bool {
	return slices.ContainsFunc(strings.Split(c.rollout, ","), func(w string) bool { return w == word || strings.HasPrefix(w, word+":") })
}

// mayWait is whether a container of a pod that is not ready waits because of its image, or crashes, and its kubelet has not reported that yet.
func (s *sim) mayWait(p *corev1.Pod, ready bool) bool {
	return s.cfg.hasWord("waiting") && !ready && gatesOpen(p) && (!works(p) || s.isIll(p)) && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Waiting == nil
}

// reasonOf is why the container of a pod waits: of some nodes the image cannot be pulled, on others it crashes.
func reasonOf(p *corev1.Pod) string {
	if n := nodeOf(p); n[len(n)-1]%2 == 0 {
		return "ImagePullBackOff"
	}
	return "CrashLoopBackOff"
}

// waitFor has the container of a pod wait. One that crashes has been restarted.
func waitFor(p *corev1.Pod) {
	is, reason := &p.Status.ContainerStatuses[0], reasonOf(p)
	if is.State = (corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}); reason == "CrashLoopBackOff" {
		is.RestartCount++
	}
}

// runAgain ends that.
func (s *sim) runAgain(p *corev1.Pod) {
	for i := range p.Status.ContainerStatuses {
		if is := &p.Status.ContainerStatuses[i]; is.State.Waiting != nil {
			is.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(s.w.now)}}
		}
	}
}

// judgeSoon: where a node may be without an available pod for long, the reason for which its container waits makes an image fail, or the deadline of its wave, and that is long before.
func (s *sim) judgeSoon(st *v1alpha1.SetStatus) {
	if !s.undoing || s.failed || st == nil || st.Failure == nil || !s.cfg.hasWord("waiting") && !s.cfg.hasWord("late") {
		return
	}
	s.failed = true
	if took := s.w.now.Sub(s.undoBegan); took > soonFailed {
		s.blame("undo", "an image that never works fails only %s after a user has set it: %s", took, st.Failure.Message)
	}
}

// alertsQuestion is the index of what the manager asks about alerts; -1 if it does not.
func (p *provider) alertsQuestion() int {
	return slices.IndexFunc(p.questions, func(q rollouts.Question) bool { return q.Alerts })
}

// alertOps are what a provider says about alerts: that none is firing, that some are, or that it does not know.
func (p *provider) alertOps(ops []op) []op {
	if i := p.alertsQuestion(); i >= 0 {
		q := p.questions[i]
		for _, is := range []v1alpha1.Answer{v1alpha1.AnswerPass, v1alpha1.AnswerFail, v1alpha1.AnswerUnknown} {
			ops = append(ops, op{words("the provider of %s says %s of alerts", p.m.name, is), 4, func() { p.answerTo(q, is) }})
		}
	}
	return ops
}

// fairAlerts is that the provider says that no alert is firing; nil if it has said so a short time ago, or often enough.
func (p *provider) fairAlerts() *op {
	i := p.alertsQuestion()
	if i < 0 || p.m.running || len(p.answers) > 0 {
		return nil
	}
	q := p.questions[i]
	if p.last[q] == v1alpha1.AnswerPass && (p.m.s.alerted >= alertRepeats || p.m.s.w.now.Sub(p.at[q]) < fairPeriod) {
		return nil
	}
	return &op{words("the provider of %s says %s of alerts", p.m.name, v1alpha1.AnswerPass), 1, func() {
		p.m.s.alerted++
		p.answerTo(q, v1alpha1.AnswerPass)
	}}
}

// nextAlerts is when the provider says again that no alert is firing, if the manager does not know that: it forgets the answers while it does not ask. Zero for never.
func (p *provider) nextAlerts(of *v1alpha1.RolloutPolicy) (at time.Time) {
	i := p.alertsQuestion()
	if i >= 0 && p.m.s.alerted < alertRepeats && slices.ContainsFunc(p.m.reported(of), func(st v1alpha1.SetStatus) bool {
		return st.Alerts != nil && st.Alerts.Answer == v1alpha1.AnswerUnknown
	}) {
		at = p.at[p.questions[i]].Add(fairPeriod)
	}
	return at
}

// silent is whether the last answer about alerts that the manager has taken, or takes with its next decision, is that none is firing.
func (p *provider) silent() bool {
	i := p.alertsQuestion()
	if i < 0 {
		return false
	}
	q := p.questions[i]
	is := p.last[q]
	for k := range p.answers {
		if p.answers[k].Question == q {
			is = p.answers[k].Answer
		}
	}
	return is == v1alpha1.AnswerPass && p.m.s.w.now.Sub(p.at[q]) < oldAlerts
}
