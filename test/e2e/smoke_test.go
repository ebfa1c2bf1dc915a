// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// agents is the namespace of the agents, and agent the name of their DaemonSet.
const (
	agents = "everynode-agents"
	agent  = "everynode-agent"
)

// TestSmoke: the agents run, a native set is rolled, and an Advanced one is updated in place.
func TestSmoke(t *testing.T) {
	t.Run("Agents", func(t *testing.T) {
		s := newStage(t, nativeRoll())
		s.Poll("an agent runs on each node", func() error { return agentsReady(s) })
	})
	t.Run("Native", func(t *testing.T) {
		s := newStage(t, nativeRoll())
		s.run()
		recorder := s.Observe(set)
		s.roll(two)
		s.Judge(recorder)
		s.ran(set, "v1", "v2")
	})
	t.Run("InPlace", func(t *testing.T) {
		s := newStage(t, advancedInPlace())
		s.run()
		before := s.pods()
		s.roll(two)
		s.keptPods(before)
		s.ran(set, "v1", "v2")
	})
}

// agentsReady tells which node has no agent that is ready.
func agentsReady(s *stage) error {
	list, err := s.Cluster.Client.CoreV1().Pods(agents).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				have[pod.Spec.NodeName] = true
			}
		}
	}
	for _, node := range s.Nodes {
		if !have[node] {
			return fmt.Errorf("node %s has none that is ready", node)
		}
	}
	return nil
}
