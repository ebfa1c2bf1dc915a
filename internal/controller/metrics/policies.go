// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// collectPolicies counts the sets of rollout policies by phase, and finds the next action, the approval that has been missing for longest, and the wave that
// has been rolling for longest, and counts what is analysed.
func (m *Metrics) collectPolicies(ch chan<- prometheus.Metric) {
	if m.Policies == nil {
		return
	}
	phases, next, waiting, rolling := map[v1alpha1.Phase]int{}, map[v1alpha1.Action]int64{}, int64(0), int64(0)
	for _, phase := range v1alpha1.Phases() {
		phases[phase] = 0
	}
	var sets []v1alpha1.SetStatus
	for _, p := range m.Policies() {
		sets = append(sets, p.Status.Sets...)
	}
	for i := range sets {
		st := &sets[i]
		phases[st.Phase]++
		if n := st.Next; n != nil && n.At != nil && (next[n.Action] == 0 || n.At.Unix() < next[n.Action]) {
			next[n.Action] = n.At.Unix()
		}
		for k := range st.Waves {
			if !st.Phase.Ended() { // else the waves are those of the rollout that has ended
				waiting = oldest(waiting, st.Waves[k].WaitingSince)
			}
			if st.Phase == v1alpha1.PhaseRolling || st.Waves[k].Name == st.Wave && (st.Phase == v1alpha1.PhaseSoaking || st.Phase == v1alpha1.PhaseWaitingForApproval) { // it waits for nodes that have joined
				rolling = oldest(rolling, st.Waves[k].RollingSince)
			}
		}
	}
	gauge := func(metric int, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(m.descs[metric], prometheus.GaugeValue, value, labels...)
	}
	waves, nodes := wavesOf(sets)
	for phase, count := range waves {
		gauge(policyWaves, float64(count), string(phase))
	}
	for number, count := range nodes {
		gauge(policyNodes, float64(count), number)
	}
	for answer, count := range answersOf(sets) {
		gauge(policyAnalyses, float64(count), string(answer))
	}
	for phase, count := range phases {
		gauge(policySets, float64(count), string(phase))
	}
	for action, at := range next {
		gauge(policyNext, float64(at), string(action))
	}
	if waiting != 0 {
		gauge(policyApproval, float64(waiting))
	}
	if rolling != 0 {
		gauge(policyRolling, float64(rolling))
	}
}

// wavesOf counts the waves of active rollouts, by phase, and their nodes. A set at rest keeps the waves of its last rollout, but they do not count.
func wavesOf(sets []v1alpha1.SetStatus) (phases map[v1alpha1.WavePhase]int, nodes map[string]int32) {
	phases, nodes = map[v1alpha1.WavePhase]int{}, map[string]int32{"desired": 0, "released": 0, "updated": 0, "available": 0, "failed": 0}
	for _, phase := range []v1alpha1.WavePhase{v1alpha1.WavePending, v1alpha1.WaveRolling, v1alpha1.WaveSoaking, v1alpha1.WaveWaitingForApproval, v1alpha1.WavePassed} {
		phases[phase] = 0
	}
	for i := range sets {
		st := &sets[i]
		if st.TargetRevision == st.CommittedRevision {
			continue
		}
		for k := range st.Waves {
			w := &st.Waves[k]
			phases[w.Phase]++
			if undone := st.Failure != nil && st.Failure.Action == v1alpha1.FailureUndo; w.Phase != v1alpha1.WavePending && !undone { // no node gets the revision then
				nodes["released"] += w.Nodes
			}
			nodes["desired"] += w.Nodes
			nodes["updated"] += w.Updated
			nodes["available"] += w.Available
			nodes["failed"] += w.Failed
		}
	}
	return phases, nodes
}

// answersOf counts the analyses that rollouts wait for, by answer. The status keeps the results for waves that have passed or failed, but they do not count.
func answersOf(sets []v1alpha1.SetStatus) map[v1alpha1.Answer]int {
	counts := map[v1alpha1.Answer]int{v1alpha1.AnswerPass: 0, v1alpha1.AnswerFail: 0, v1alpha1.AnswerUnknown: 0}
	for i := range sets {
		st := &sets[i]
		if st.Alerts != nil {
			counts[st.Alerts.Answer]++
		}
		for k := range st.Analyses {
			if as := &st.Analyses[k]; as.Wave == st.Wave && st.Failure == nil {
				counts[as.Answer]++
			}
		}
	}
	return counts
}

// oldest returns the earlier of two times; 0 and nil count as no time.
func oldest(a int64, b *metav1.Time) int64 {
	if b == nil || a != 0 && a <= b.Unix() {
		return a
	}
	return b.Unix()
}
