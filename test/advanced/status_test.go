// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kruisedialect "everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// statusScenarios are about conditions and events.
func statusScenarios() []scenario {
	return []scenario{
		{"conditions-of-a-roll", 3, false, conditionsOfARoll},
		{"available-tells-of-unavailable-nodes", 3, false, availableCondition},
		{"refused-pods-are-told-of", 3, false, refusedPods},
		{"crashing-pods-hold-the-roll", 3, false, crashing},
		{"events-are-told-once", 2, false, eventsOnce},
		{"conditions-of-others-are-kept", 1, false, conditionsOfOthers},
		{"wait-for-a-condition", 2, false, waitForCondition},
	}
}

func conditionsOfARoll(s *stage) {
	s.run()
	complete := harness.ConditionIs(s.name, kruisedialect.Progressing, corev1.ConditionFalse, kruisedialect.ReasonComplete)
	fine := harness.ConditionIs(s.name, kruisedialect.Degraded, corev1.ConditionFalse, kruisedialect.ReasonAsExpected)
	available := harness.ConditionIs(s.name, kruisedialect.Available, corev1.ConditionTrue, kruisedialect.ReasonNodes)
	s.Wait("all is said to be well", complete, fine, available)
	s.roll(two)
	s.Wait("all is said to be well again", complete, fine, available)
	seen := false
	for _, event := range s.recorder.Log() {
		set, ok := event.Object.(*observe.Advanced)
		if !ok {
			continue
		}
		for _, c := range set.Status.Conditions {
			switch {
			case c.Type == kruisedialect.Progressing && c.Status == corev1.ConditionTrue && set.Generation > 1:
				seen = seen || c.Reason == kruisedialect.ReasonInProgress
			case c.Type == kruisedialect.Degraded && c.Status == corev1.ConditionTrue:
				s.t.Errorf("degraded in the middle of a roll: %+v", c)
			}
		}
	}
	if !seen {
		s.t.Error("the roll was never said to be in progress")
	}
}

// availableCondition: with one unavailable node more than the update may take, the condition names it.
func availableCondition(s *stage) {
	s.run("spec: {updateStrategy: {type: OnDelete}}", withImage(one))
	s.apply(withImage(broken))
	s.held(0)
	s.delete(s.Nodes[0])
	s.Wait("the set is said not to be available", harness.ConditionIs(s.name, kruisedialect.Available, corev1.ConditionFalse, kruisedialect.ReasonNodes))
	s.wantOutput(s.View().ConditionOf(s.name, kruisedialect.Available).Message, s.Nodes[0], "2 of 3 nodes")
}

// refusedPods: what the API server refuses is told by a condition and an event, and follows when it may.
func refusedPods(s *stage) {
	quotas := s.Cluster.Client.CoreV1().ResourceQuotas(s.Name)
	_, err := quotas.Create(s.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatalf("creating a quota: %v", err)
	}
	s.apply()
	s.generation()
	s.Wait("one pod runs, and the others are told of", harness.HasEvent(s.name, corev1.EventTypeWarning, "FailedCreate"),
		harness.ConditionIs(s.name, kruisedialect.Degraded, corev1.ConditionTrue, kruisedialect.ReasonBlocked),
		harness.StatusIs(s.name, "3 desired, 1 available", func(status status) bool {
			return status.DesiredNumberScheduled == 3 && status.NumberAvailable == 1
		}))
	s.wantOutput(s.View().ConditionOf(s.name, kruisedialect.Degraded).Message, "exceeded quota")
	if err := quotas.Delete(s.Context(), "few", metav1.DeleteOptions{}); err != nil {
		s.t.Fatalf("deleting the quota: %v", err)
	}
	s.rolled(harness.ConditionIs(s.name, kruisedialect.Degraded, corev1.ConditionFalse, kruisedialect.ReasonAsExpected))
}

// crashing: a pod that crashes again and again is not available, and holds the roll.
func crashing(s *stage) {
	const crash = "registry.example/agent:crash"
	s.run()
	s.apply(withImage(crash))
	s.Wait("one node crashes, and no other is touched", s.waitsFor(crash, "CrashLoopBackOff"), harness.Observed(s.name, s.generation()),
		harness.StatusIs(s.name, "1 updated, 2 available", func(status status) bool {
			return status.UpdatedNumberScheduled == 1 && status.NumberAvailable == 2
		}))
	s.roll(two)
}

func eventsOnce(s *stage) {
	s.run()
	s.roll(two)
	s.Wait("each pod has an event", func(v harness.View) error {
		for reason, want := range map[string]int{"SuccessfulCreate": 4, "SuccessfulDelete": 2} {
			count := 0
			for _, event := range s.events(reason) {
				count += int(max(event.Count, 1))
			}
			if count != want {
				return fmt.Errorf("%d events %s, want %d", count, reason, want)
			}
		}
		return nil
	})
}

// events are those about the set with that reason.
func (s *stage) events(reason string) []corev1.Event {
	s.t.Helper()
	list, err := s.Cluster.Client.CoreV1().Events(s.Name).List(s.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + s.name + ",reason=" + reason,
	})
	if err != nil {
		s.t.Fatalf("listing events: %v", err)
	}
	return list.Items
}

func conditionsOfOthers(s *stage) {
	s.run()
	conditions := append(s.set().Status.DeepCopy().Conditions, appsv1.DaemonSetCondition{
		Type: "example.org/Checked", Status: corev1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(),
	})
	raw := fmt.Sprintf(`{"status":{"conditions":%s}}`, asJSON(s.t, conditions))
	s.Kubectl("patch", "ads", s.name, "--subresource=status", "--type=merge", "-p", raw)
	s.roll(two)
	if c := s.View().ConditionOf(s.name, "example.org/Checked"); c == nil || c.Reason != "Test" {
		s.t.Errorf("the condition of somebody else is %+v", c)
	}
}

// waitForCondition: what kubectl offers for waiting works.
func waitForCondition(s *stage) {
	s.run()
	s.apply(withImage(two))
	s.Wait("the newest generation is observed", harness.Observed(s.name, s.generation()))
	s.wantOutput(s.Kubectl("wait", "ads/agent", "--for=condition=Progressing=false", "--timeout=60s"), "condition met")
	s.rolled(s.runs(two))
}
