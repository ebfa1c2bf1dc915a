// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kruisedialect "everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

type status = appsv1.DaemonSetStatus

// standardScenarios are about updates that recreate pods, and their budgets.
func standardScenarios() []scenario {
	return []scenario{
		{"max-unavailable-number", 5, true, budget("maxUnavailable: 2", 2, 0)},
		{"max-unavailable-percent-rounded-up", 5, false, budget("maxUnavailable: 30%", 2, 0)},
		{"max-unavailable-all", 3, false, budget("maxUnavailable: 100%", 3, 0)},
		{"max-surge-number", 4, false, budget("maxSurge: 2", 0, 2)},
		{"max-surge-percent-rounded-up", 5, false, budget("maxSurge: 30%, maxUnavailable: 0", 0, 2)},
		{"min-ready-seconds", 2, false, minReady},
		{"on-delete", 3, false, onDelete},
		{"on-delete-by-the-owner-of-a-node", 3, false, byOwner},
		{"burst-of-one", 4, false, func(s *stage) { s.run("spec: {burstReplicas: 1}", rolling("maxUnavailable: 100%")); s.roll(two) }},
		{"burst-percent-of-few-nodes", 3, false, func(s *stage) { s.run("spec: {burstReplicas: 10%}"); s.roll(two) }},
		{"broken-image-keeps-to-the-budget", 4, false, brokenImage},
		{"change-of-mind", 4, false, changeOfMind},
		{"failed-pod", 2, false, endedPod(corev1.PodFailed, corev1.EventTypeWarning, "FailedDaemonPod")},
		{"succeeded-pod", 2, false, endedPod(corev1.PodSucceeded, corev1.EventTypeNormal, "SucceededDaemonPod")},
		{"deleted-pod", 2, false, deletedPod},
	}
}

// budget rolls a set, and asks how far its budgets were used.
func budget(fields string, unavailable, surge int) func(s *stage) {
	return func(s *stage) {
		s.run(rolling(fields))
		s.roll(two)
		s.atEnd(func(report observe.Report) {
			if report.Limit != unavailable || report.MostUnavailable > unavailable || (report.MostUnavailable > 0) != (unavailable > 0) {
				s.t.Errorf("%s, want up to %d unavailable", report.Summary(), unavailable)
			}
			if report.MostSurging > surge || (report.MostSurging > 0) != (surge > 0) {
				s.t.Errorf("%s, want up to %d surging", report.Summary(), surge)
			}
		})
	}
}

func minReady(s *stage) {
	s.run("spec: {minReadySeconds: 2}")
	s.roll(two)
	for _, event := range s.recorder.Log() {
		if set, ok := event.Object.(*observe.Advanced); ok && set.Status.NumberReady > set.Status.NumberAvailable {
			return
		}
	}
	s.t.Error("the status never told of a pod that is ready and not yet available")
}

func onDelete(s *stage) {
	s.run("spec: {updateStrategy: {type: OnDelete}}")
	before := s.uids()
	s.apply(withImage(two))
	s.held(0)
	s.samePods(before)
	s.delete(s.Nodes[0])
	s.held(1, s.replaced(before, s.Nodes[0]))
	s.wantNodes(two, s.Nodes[0])
	s.apply("spec: {updateStrategy: {type: RollingUpdate}}")
	s.rolled(s.runs(two))
}

// replaced is met when these nodes have a ready pod that is not the one of before.
func (s *stage) replaced(before map[string]types.UID, nodes ...string) harness.Condition {
	return func(v harness.View) error {
		for _, node := range nodes {
			pod := v.PodOn(s.name, node)
			if pod == nil || pod.UID == before[node] || !harness.Ready(pod) {
				return fmt.Errorf("node %s has no new ready pod", node)
			}
		}
		return nil
	}
}

// brokenImage: a roll stops at its budget, and the old template again takes back what was done, and only that.
func brokenImage(s *stage) {
	s.run(rolling("maxUnavailable: 2"))
	before := s.uids()
	s.apply(withImage(broken))
	s.Wait("two nodes are stuck, and the condition names them", harness.Observed(s.name, s.generation()),
		harness.StatusIs(s.name, "2 updated and 2 available", func(status status) bool {
			return status.UpdatedNumberScheduled == 2 && status.NumberAvailable == 2
		}), harness.ConditionIs(s.name, kruisedialect.Progressing, corev1.ConditionFalse, kruisedialect.ReasonPodsFailing))
	stuck := s.running(broken)
	for _, node := range stuck {
		s.wantOutput(s.View().ConditionOf(s.name, kruisedialect.Progressing).Message, node)
	}
	s.roll(one)
	for _, node := range s.Nodes {
		changed, touched := s.uids()[node] != before[node], node == stuck[0] || node == stuck[1]
		if changed != touched {
			s.t.Errorf("node %s: pod replaced %t, want %t", node, changed, touched)
		}
	}
}

func changeOfMind(s *stage) {
	s.run()
	s.apply(withImage(two))
	s.Wait("the second template has arrived somewhere", func(v harness.View) error {
		for _, pod := range v.Pods(s.name) {
			if imageOf(pod) == two && harness.Ready(pod) {
				return nil
			}
		}
		return fmt.Errorf("no ready pod has it yet")
	})
	s.roll(three)
}

// endedPod: a pod that ended by itself is replaced, and an event tells it.
func endedPod(phase corev1.PodPhase, kind, reason string) func(s *stage) {
	return func(s *stage) {
		s.run()
		before := s.uids()
		ended := s.pod(s.Nodes[0]).DeepCopy()
		ended.ResourceVersion, ended.Status.Phase = "", phase
		if _, err := s.Cluster.Client.CoreV1().Pods(s.Name).UpdateStatus(s.Context(), ended, metav1.UpdateOptions{}); err != nil {
			s.t.Fatalf("ending pod %s: %v", ended.Name, err)
		}
		s.rolled(s.replaced(before, s.Nodes[0]), harness.HasEvent(s.name, kind, reason))
		if s.uids()[s.Nodes[1]] != before[s.Nodes[1]] {
			s.t.Error("the pod of the other node was replaced too")
		}
	}
}

func deletedPod(s *stage) {
	s.run()
	before := s.uids()
	s.delete(s.Nodes[0])
	s.rolled(s.replaced(before, s.Nodes[0]))
	s.atEnd(func(report observe.Report) {
		if len(report.Created) != 3 {
			s.t.Errorf("pods %v were created, want 3", report.Created)
		}
	})
}
