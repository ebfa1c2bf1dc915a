// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// TestWaveHealthyWithoutAPod: with readyWhen WaveHealthy the policy is not ready, and does not say that waves are available, while a wave that has passed or waits lacks a pod.
func TestWaveHealthyWithoutAPod(t *testing.T) {
	t.Run("passed", func(t *testing.T) {
		w := newWorld(t, "readyWhen: WaveHealthy\nwaves: [{name: canary, nodes: {count: 2}}, {name: half, nodes: {percent: 50}, soak: 1h}]")
		w.pass(0)
		w.want("ab", v1alpha1.PhaseRolling, "canary")
		w.pass(time.Second)
		w.want("cde", v1alpha1.PhaseRolling, "half")
		w.pass(time.Second)
		w.put("a", 1, false)
		w.put("b", 1, false)
		w.pass(time.Second)
		if c := w.condition(v1alpha1.ConditionReady); w.last.Phase != v1alpha1.PhaseSoaking || c.Status == metav1.ConditionTrue {
			t.Errorf("all canaries are broken, and the policy is Ready: %+v, %+v", c, w.last.Waves[0])
		}
	})
	t.Run("waiting", func(t *testing.T) {
		w := newWorld(t, "readyWhen: WaveHealthy\nwaves: [{name: canary, nodes: {selector: {matchLabels: {canary: 'true'}}}, after: [{type: Approval}]}]")
		w.labels["a"], w.labels["k"] = map[string]string{"canary": "true"}, map[string]string{"canary": "true"}
		w.pass(0)
		w.want("a", v1alpha1.PhaseRolling, "canary")
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
		w.pass(time.Minute)
		w.join("k", w.s.Now, 1)
		k := w.node("k")
		k.Pods, k.Refusal = nil, &rollout.Refusal{Message: "exceeded quota", RetryAt: w.s.Now.Add(time.Hour)}
		w.pass(time.Second)
		if c := w.condition(v1alpha1.ConditionReady); c.Status == metav1.ConditionTrue {
			t.Errorf("the canary has %d of %d pods: %+v", w.last.Waves[0].Available, w.last.Waves[0].Nodes, c)
		}
	})
}
